"""Division of targets among jobs: shared work once, no short jobs, no more jobs than asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelbuild.affected.jobs import Job, divide, github_matrix


def labels(jobs: list[Job]) -> list[set[str]]:
    return [set(job.labels) for job in jobs]


def shared(count: int, export: float, own: float) -> tuple[dict[str, set[str]], dict[str, float]]:
    """Return targets //0, //1... that each need the export of one model and an action of their own."""
    work = {f"//{number}": {"export", f"compile{number}"} for number in range(count)}
    return work, {"export": export, **{f"compile{number}": own for number in range(count)}}


def test_targets_of_one_model_are_one_job_if_they_are_short() -> None:
    (job,) = divide(*shared(8, export=30, own=10), 8, 300)
    assert len(job.labels) == 8
    assert job.seconds == 30 + 8 * 10


def test_long_targets_of_one_model_are_divided() -> None:
    jobs = divide(*shared(8, export=30, own=600), 8, 300)
    assert [job.seconds for job in jobs] == [630] * 8
    jobs = divide(*shared(8, export=30, own=600), 2, 300)
    assert [len(job.labels) for job in jobs] == [4, 4]


def test_work_is_repeated_only_by_jobs_that_are_much_longer() -> None:
    jobs = divide(*shared(8, export=300, own=200), 8, 60)
    assert [(len(job.labels), job.seconds) for job in jobs] == [(3, 900), (3, 900), (2, 700)]
    (job,) = divide(*shared(60, export=300, own=10), 8, 60)
    assert job.seconds == 900


def test_targets_of_each_model_stay_together() -> None:
    work = {f"//{model}:{number}": {model, f"{model}{number}"} for model in "abc" for number in range(4)}
    seconds = {part: 100.0 if len(part) == 1 else 50.0 for parts in work.values() for part in parts}
    jobs = divide(work, seconds, 8, 300)
    assert sorted(map(sorted, labels(jobs))) == [[f"//{model}:{number}" for number in range(4)] for model in "abc"]
    assert [job.seconds for job in jobs] == [300.0] * 3


def test_a_target_with_nothing_of_its_own_is_where_its_work_is() -> None:
    work = {"//test": {"export", "test"}, "//program": {"export"}, "//other": {"x"}}
    jobs = divide(work, {"export": 40, "test": 370, "x": 300}, 8, 60)
    assert labels(jobs) == [{"//test", "//program"}, {"//other"}]
    assert github_matrix(jobs)["include"] == [
        {"job": "1/2", "targets": "//program //test", "seconds": 410},
        {"job": "2/2", "targets": "//other", "seconds": 300},
    ]


def test_no_targets_are_no_jobs() -> None:
    assert github_matrix(divide({}, {}, 8, 300)) == {"include": []}


PARTS = st.sets(st.integers(0, 12).map(str), max_size=6)


@given(
    st.dictionaries(st.text("abc", min_size=1), PARTS, max_size=25),
    st.lists(st.floats(0, 1000), min_size=13, max_size=13),
    st.integers(1, 6),
    st.floats(1, 500),
)
def test_each_target_is_in_one_job_and_no_job_is_needlessly_short(
    work: dict[str, set[str]], numbers: list[float], most: int, least: float
) -> None:
    seconds = {str(index): value for index, value in enumerate(numbers)}
    jobs = divide(work, seconds, most, least)
    assert sorted(label for job in jobs for label in job.labels) == sorted(work)
    assert len(jobs) <= most
    for job in jobs:
        assert job.labels
        assert job.work == set().union(*(work[label] for label in job.labels))
        assert abs(job.seconds - sum(seconds[part] for part in job.work)) < 1e-6
    for index, job in enumerate(jobs):  # two jobs never fit into the least length
        assert all(sum(seconds[p] for p in job.work | other.work) > least - 1e-6 for other in jobs[:index])
