"""Sharding of targets by their earlier durations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelbuild.affected.shards import github_matrix, shards


def test_the_longest_goes_first_and_alone() -> None:
    found = shards(["//a", "//b", "//c", "//d"], {"//a": 10, "//b": 4, "//c": 3, "//d": 2}, 2)
    assert [(shard.labels, shard.seconds) for shard in found] == [(("//a",), 10), (("//b", "//c", "//d"), 9)]
    assert github_matrix(found)["include"][1] == {"shard": "2/2", "targets": "//b //c //d", "seconds": 9}


def test_unknown_targets_count_as_the_median() -> None:
    (shard,) = shards(["//a", "//b", "//new"], {"//a": 2, "//b": 6}, 1)
    assert shard.seconds == 12


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(0, 1000), max_size=30), st.integers(1, 10))
def test_each_target_is_in_one_shard_and_none_is_empty(costs: dict[str, float], count: int) -> None:
    found = shards(list(costs), costs, count)
    assert sorted(label for shard in found for label in shard.labels) == sorted(costs)
    assert len(found) == min(count, len(costs))
    assert all(shard.labels for shard in found)
    # Within twice the best possible, as for any greedy schedule.
    if costs:
        best = max(sum(costs.values()) / count, *costs.values(), 0)
        assert max(shard.seconds for shard in found) <= 2 * best + 0.1
