"""The scheduler against a store and an executor in memory: order, early cutoff, growth, failure, sharing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import (
    Action,
    ActionResult,
    Artifact,
    DerivedArtifact,
    Digest,
    ErrorText,
    FileEntry,
    Output,
    Resources,
    SourceArtifact,
    Tree,
)
from modelbuild.api.context import Expander
from modelbuild.code.step_sources import StepCode
from modelbuild.errors import BuildError
from modelbuild.events import ActionFinished, ActionStarted, CacheUsed, Event, GraphGrew, Notice
from modelbuild.execution.executor import ActionRequest, Outcome, RunHere
from modelbuild.execution.resolver import Resolver
from modelbuild.execution.scheduling.longest_paths import Estimates
from modelbuild.execution.scheduling.report import Report
from modelbuild.execution.scheduling.scheduler import Scheduler, SchedulingPolicy

STEPS = ("copy", "join", "plan", "constant", "fail", "slow", "split", "hang")


def digest(data: bytes) -> Digest:
    return Digest(hashlib.sha256(data).hexdigest(), len(data))


class Memory:
    """Blobs and results in dictionaries."""

    fetched: Collection[str] = ()

    def __init__(self) -> None:
        self.blobs: dict[Digest, bytes] = {}
        self.results: dict[str, ActionResult] = {}

    def put_bytes(self, data: bytes) -> Digest:
        self.blobs[digest(data)] = data
        return digest(data)

    def read_bytes(self, which: Digest) -> bytes:
        return self.blobs[which]

    def get_action(self, key: str, material: Mapping[str, Any] | None = None) -> ActionResult | None:
        return self.results.get(key)

    def put_action(self, key: str, result: ActionResult, material: Mapping[str, Any]) -> None:
        self.results[key] = result


class Fake:
    """Runs steps that are one line long."""

    def __init__(self, store: Memory, files: Mapping[str, bytes]) -> None:
        self.store, self.files = store, files
        self.ran: list[str] = []
        self.running = 0
        self.most = 0
        self.lock = threading.Lock()
        self.both = threading.Barrier(2)
        self.awaited = threading.Event()
        self.closed = threading.Event()

    def run(self, request: ActionRequest) -> Outcome:
        with self.lock:
            self.ran.append(request.action.id)
        assert self.awaited.wait(timeout=30)
        step = request.action.step.rpartition(".")[2]
        texts = [self.store.read_bytes(i.value.digest) for i in request.inputs if isinstance(i.value, FileEntry)]
        if step == "fail":
            return Outcome(None, "no good", stderr=self.store.put_bytes(b"why\n"))
        if step == "slow":
            self.both.wait(timeout=30)
        if step == "hang":
            self.closed.wait(timeout=30)
        if step == "split":
            tree = Tree(tuple((f"p{i}/x", FileEntry(self.store.put_bytes(b))) for i, b in enumerate(texts[0].split())))
            return Outcome(ActionResult((("out", tree),)))
        data = {"constant": b"same", "plan": texts[0] if texts else b""}.get(step, b" ".join(texts))
        if step == "join":
            trees = [i.value for i in request.inputs if isinstance(i.value, Tree)]
            data = b"+".join(self.store.read_bytes(f.digest) for t in trees for _, f in t.files) + b" ".join(texts)
        return Outcome(ActionResult((("out", FileEntry(self.store.put_bytes(data))),)))

    def close(self) -> None:
        self.closed.set()


class Recorder:
    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self.on_event = on_event
        self.events: list[Event] = []
        self.ready = 0
        self.awaited = threading.Event()  # set after as many lookups in the cache

    def emit(self, event: Event) -> None:
        self.events.append(event)
        if sum(isinstance(each, CacheUsed) and each.kind == "lookup" for each in self.events) >= self.ready:
            self.awaited.set()
        self.on_event(event)

    def close(self) -> None:
        pass

    def ended(self, status: str) -> list[str]:
        return [e.id for e in self.events if isinstance(e, ActionFinished) and e.status == status]


class NoFiles:
    """Fake tools for keys of actions without tools."""

    def entry(self, path: str) -> tuple[Path, FileEntry]:
        raise AssertionError(path)

    def listing(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        raise AssertionError(folder)


class MemoryWorkspace:
    """A workspace in memory that can be built again after its files change."""

    def __init__(self, tmp_path: Path) -> None:
        self.root, self.pack = tmp_path, tmp_path / "pack"
        (self.pack / "steps").mkdir(parents=True)
        for name in ("__init__", "steps/__init__", *(f"steps/{s}" for s in STEPS)):
            (self.pack / f"{name}.py").write_text("")
        self.store = Memory()
        self.files: dict[str, bytes] = {}

    def source(self, path: str) -> tuple[Path, FileEntry]:
        return Path("/nowhere") / path, FileEntry(self.store.put_bytes(self.files[path]))

    def build(
        self,
        declare: Callable[[Expander], Iterable[Artifact]],
        keep_going: bool = False,
        jobs: int = 2,
        estimates: Estimates = lambda names: {},
        ready: int = 0,
        on_event: Callable[[Event], None] = lambda event: None,
        elsewhere: int = 1,
        runs_here: Callable[[Action], bool] = lambda action: True,
    ) -> tuple[Report, Fake, Recorder, Scheduler]:
        """`ready`: the number of actions that must be ready before the first may end."""
        graph, recorder = ActionGraph(), Recorder(on_event)
        fake = Fake(self.store, self.files)
        recorder.awaited, recorder.ready = fake.awaited, ready
        wanted = list(declare(Expander(graph, "//m:x", "pack")))
        self.scheduler = scheduler = Scheduler(
            graph,
            self.store,
            Resolver(StepCode({"pack": self.pack}), self.root, self.store.read_bytes, NoFiles()),
            self.source,
            fake,
            recorder,
            SchedulingPolicy(jobs, elsewhere, runs_here, keep_going, estimates=estimates),
        )
        return scheduler.build(wanted), fake, recorder, scheduler


@pytest.fixture
def workspace(tmp_path: Path) -> MemoryWorkspace:
    return MemoryWorkspace(tmp_path)


OUT = [Output("out", "out")]
TREE = [Output("out", "out", "tree")]


def act(on: Expander, name: str, step: str, *inputs: Artifact, **params: Any) -> DerivedArtifact:
    outputs = TREE if step == "split" else OUT
    return on.action(name, step=step, outputs=outputs, inputs={"in": inputs}, params=params, name=name)["out"]


def chain(on: Expander) -> list[Artifact]:
    a = act(on, "a", "copy", SourceArtifact("f"))
    b = act(on, "b", "constant", a)
    c = act(on, "c", "copy", b)
    act(on, "unneeded", "copy", a)
    return [c]


def test_runs_what_is_needed_in_order_and_nothing_the_second_time(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"
    report, fake, _, scheduler = workspace.build(chain)
    assert fake.ran == ["//m:x#a", "//m:x#b", "//m:x#c"]
    assert not report.failed
    assert scheduler.values.value(DerivedArtifact("//m:x#c", "out")) == FileEntry(digest(b"same"))
    _, fake, recorder, _ = workspace.build(chain)
    assert fake.ran == []
    assert recorder.ended("cached") == ["//m:x#a", "//m:x#b", "//m:x#c"]


def test_a_rebuild_stops_where_an_output_came_out_the_same(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"
    workspace.build(chain)
    workspace.files["f"] = b"two"
    _, fake, recorder, _ = workspace.build(chain)
    assert fake.ran == ["//m:x#a", "//m:x#b"]
    assert recorder.ended("cached") == ["//m:x#c"]


def test_notes_of_an_action_are_printed_when_it_runs_and_when_it_is_cached(workspace: MemoryWorkspace) -> None:
    def declare(on: Expander) -> list[Artifact]:
        place = act(on, "place", "copy", SourceArtifact("place"))
        text = ErrorText((place,), lambda note, data: f"{note} at {data.decode()}")
        inputs = {"in": SourceArtifact("f"), "place": place}
        noted = on.action("a", step="plan", outputs=OUT, inputs=inputs, name="a", notes="out", error_text=text)["out"]
        silent = on.action("b", step="plan", outputs=OUT, inputs=inputs, name="b", error_text=text)["out"]
        return [place, act(on, "last", "join", noted, silent)]

    workspace.files |= {"f": b"slow\nwide\x1b[0m\n", "place": b"net.py:3"}
    wanted = [r"//m:x: slow at net.py:3", r"//m:x: wide\x1b[0m at net.py:3"]
    for ran in (True, False):
        _, fake, recorder, _ = workspace.build(declare)
        assert bool(fake.ran) is ran
        assert [event.text for event in recorder.events if isinstance(event, Notice)] == wanted
    workspace.files["f"] = b""
    assert not [event for event in workspace.build(declare)[2].events if isinstance(event, Notice)]


def test_going_back_to_an_earlier_state_runs_nothing(workspace: MemoryWorkspace) -> None:
    for text, ran in [(b"one", 3), (b"two", 2), (b"one", 0)]:
        workspace.files["f"] = text
        assert len(workspace.build(chain)[1].ran) == ran


def grow(on: Expander) -> list[Artifact]:
    parts = act(on, "split", "split", SourceArtifact("words"))
    plan = act(on, "plan", "plan", SourceArtifact("words"))

    def then(inner: Expander, data: bytes) -> Mapping[str, Artifact]:
        compiled = [
            act(inner, f"compile{i}", "join", DerivedArtifact(parts.action, parts.output, f"p{i}"))
            for i in range(len(data.split()))
        ]
        return {"all": act(inner, "link", "copy", *compiled)}

    return [act(on, "last", "copy", on.expand(reads=plan, promises=["all"], then=then)["all"])]


def test_actions_found_while_running_are_run_and_cached_one_by_one(workspace: MemoryWorkspace) -> None:
    workspace.files["words"] = b"red green blue"
    report, fake, recorder, scheduler = workspace.build(grow)
    assert {i.partition("#")[2] for i in fake.ran} == {
        "split", "plan", "compile0", "compile1", "compile2", "link", "last",
    }  # fmt: skip
    assert fake.ran[-2:] == ["//m:x#link", "//m:x#last"]
    assert scheduler.values.value(DerivedArtifact("//m:x#last", "out")) == FileEntry(digest(b"red green blue"))
    assert [e.total for e in recorder.events if isinstance(e, GraphGrew)] == [7]
    assert set(report.keys) == set(fake.ran)

    workspace.files["words"] = b"red grey blue"
    _, fake, _, _ = workspace.build(grow)
    assert {i.partition("#")[2] for i in fake.ran} == {"split", "plan", "compile1", "link", "last"}


def test_a_part_before_others_changes_no_key_of_theirs(workspace: MemoryWorkspace) -> None:
    """Nor are equal parts made twice: which of the parts it is is in no key."""
    workspace.files["words"] = b"red green blue"
    workspace.build(grow)
    workspace.files["words"] = b"white red green green blue"
    report, fake, _, _ = workspace.build(grow)
    assert {i.partition("#")[2] for i in fake.ran} == {"split", "plan", "compile0", "link", "last"}
    assert report.keys["//m:x#compile2"] == report.keys["//m:x#compile3"]


def test_a_part_that_turns_out_not_to_be_there_fails_what_reads_it(workspace: MemoryWorkspace) -> None:
    workspace.files["words"] = b"red green"

    def declare(on: Expander) -> list[Artifact]:
        parts = act(on, "parts", "split", SourceArtifact("words"))
        reads = (DerivedArtifact(parts.action, "out", path) for path in ("p0", "p9"))
        return [act(on, "good", "copy", SourceArtifact("words")), act(on, "wants", "copy", *reads)]

    report, _, recorder, _ = workspace.build(declare, keep_going=True)
    (failed,) = [e for e in recorder.events if isinstance(e, ActionFinished) and e.status == "failed"]
    problem = "output 'out' of //m:x#parts has no 'p9'; expected 'p9' in it"
    assert (failed.id, failed.problem) == ("//m:x#wants", problem)
    assert report.statuses["//m:x#good"] == "ran"


def test_two_actions_with_one_key_run_once(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"

    def declare(on: Expander) -> list[Artifact]:
        return [act(on, name, "copy", SourceArtifact("f")) for name in ("a", "b", "c")]

    report, fake, recorder, _ = workspace.build(declare)
    assert len(fake.ran) == 1
    assert len(recorder.ended("cached")) == 2
    assert len(set(report.keys.values())) == 1


def test_two_jobs_run_at_the_same_time(workspace: MemoryWorkspace) -> None:
    workspace.files.update(f=b"1", g=b"2")

    def declare(on: Expander) -> list[Artifact]:
        return [act(on, name, "slow", SourceArtifact(name)) for name in ("f", "g")]

    report, fake, _, _ = workspace.build(declare, jobs=2)
    assert not report.failed
    assert not fake.both.broken


def seconds_of(names: Iterable[str]) -> dict[str, float]:
    """An action called `a7` has an estimate of 7 seconds."""
    return {name: float("".join(filter(str.isdigit, name.partition("#")[2]))) for name in names}


def test_the_longest_remaining_path_starts_first(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"

    def declare(on: Expander) -> list[Artifact]:
        alone = [act(on, f"a{n}", "copy", SourceArtifact("f"), n=n) for n in (1, 5, 3, 4)]
        chain = act(on, "z2", "copy", act(on, "z1", "copy", SourceArtifact("f")))
        return [*alone, act(on, "z8", "copy", chain, n=8)]

    _, fake, _, _ = workspace.build(declare, jobs=1, estimates=seconds_of, ready=5)
    first, *later = [name.partition("#")[2] for name in fake.ran]
    assert later == [name for name in ("z1", "z2", "z8", "a5", "a4", "a3", "a1") if name != first]


def test_the_longest_path_of_an_expansion_starts_with_the_first_of_its_actions(workspace: MemoryWorkspace) -> None:
    """The short actions are looked up first, and would take both slots."""
    workspace.files["f"] = b"one"

    def declare(on: Expander) -> list[Artifact]:
        def then(inner: Expander, data: bytes) -> Mapping[str, Artifact]:
            made = [act(inner, name, "copy", plan, n=n) for n, name in enumerate(["a1", "b1", "c1", "d1", "z9"])]
            return {"all": act(inner, "link1", "copy", *made)}

        plan = act(on, "plan1", "copy", SourceArtifact("f"))
        return [on.expand(reads=plan, promises=["all"], then=then)["all"]]

    _, _, recorder, _ = workspace.build(declare, jobs=2, estimates=seconds_of)
    started = [event.id.partition("#")[2] for event in recorder.events if isinstance(event, ActionStarted)]
    assert started[1] == "z9"


def programs(on: Expander) -> list[Artifact]:
    """Three programs of two actions, an expansion that adds four, and a last one."""

    def program(name: str) -> Artifact:
        first = act(on, f"{name}first", "copy", SourceArtifact(name))
        parts = act(on, f"{name}split", "split", first)

        def then(inner: Expander, data: bytes) -> Mapping[str, Artifact]:
            compiled = [
                act(inner, f"{name}compile{i}", "join", DerivedArtifact(parts.action, "out", f"p{i}")) for i in range(2)
            ]
            return {"all": act(inner, f"{name}link", "copy", *compiled)}

        plan = act(on, f"{name}plan", "plan", first)
        made = on.expand(reads=plan, promises=["all"], then=then, name=f"{name}expand")["all"]
        return act(on, f"{name}last", "copy", made)

    return [program(name) for name in "abc"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_program_is_finished_before_the_next_but_one_begins(workspace: MemoryWorkspace, jobs: int) -> None:
    """With one job, no action of a program runs between two actions of another; each further job adds one program."""
    workspace.files.update({name: f"{name}1 {name}2".encode() for name in "abc"})
    # All first actions are ready before one of them ends, so that the order is decided.
    _, fake, _, _ = workspace.build(programs, jobs=jobs, estimates=lambda names: dict.fromkeys(names, 1.0), ready=3)
    ran = [name.partition("#")[2] for name in fake.ran]
    assert len(ran) == 21
    for place in range(len(ran)):
        begun, left = {name[0] for name in ran[: place + 1]}, {name[0] for name in ran[place + 1 :]}
        assert len(begun & left) <= jobs + (place < jobs)  # the first actions start before there is an order


def test_an_expansion_that_gives_what_reads_its_own_promise_is_refused(workspace: MemoryWorkspace) -> None:
    workspace.files["words"] = b"red"

    def declare(on: Expander) -> list[Artifact]:
        plan = act(on, "plan", "plan", SourceArtifact("words"))
        inside: dict[str, Artifact] = {}
        promise = on.expand(reads=plan, promises=["all"], then=lambda inner, data: {"all": inside["reader"]})["all"]
        inside["reader"] = act(on, "far", "copy", act(on, "near", "copy", promise))
        return [inside["reader"]]

    report, _, recorder, _ = workspace.build(declare)
    assert report.failed.keys() == {"//m:x#expand", "//m:x#near", "//m:x#far"}
    (problem,) = [e.problem for e in recorder.events if isinstance(e, ActionFinished) and e.status == "failed"]
    cycle = "//m:x#expand -> //m:x#near -> //m:x#far"
    assert problem.startswith(f"ValueError: it fulfils a promise with an artifact that is made from it: {cycle}")


def test_only_what_an_expansion_adds_is_reported_as_new(workspace: MemoryWorkspace) -> None:
    workspace.files["words"] = b"red green blue"
    _, _, recorder, _ = workspace.build(grow)
    (grew,) = [event for event in recorder.events if isinstance(event, GraphGrew)]
    assert grew.total == 7


def broken(on: Expander) -> list[Artifact]:
    bad = act(on, "bad", "fail", SourceArtifact("f"))
    good = [act(on, f"good{i}", "copy", SourceArtifact("f"), i=i) for i in range(4)]
    return [act(on, "after", "copy", bad), *good, act(on, "far", "copy", act(on, "near", "copy", bad))]


def test_keep_going_builds_all_that_no_failure_touches(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"
    report, fake, recorder, _ = workspace.build(broken, keep_going=True)
    assert set(fake.ran) == {f"//m:x#{n}" for n in ("bad", "good0", "good1", "good2", "good3")}
    assert report.failed == {f"//m:x#{n}": "//m:x#bad" for n in ("bad", "after", "near", "far")}
    (failed,) = [e for e in recorder.events if isinstance(e, ActionFinished) and e.status == "failed"]
    assert (failed.problem, failed.stderr) == ("no good", "why\n")


def test_without_keep_going_nothing_starts_after_a_failure(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"

    def declare(on: Expander) -> list[Artifact]:
        ok = act(on, "ok", "copy", act(on, "bad", "fail", SourceArtifact("f")))
        return [ok]

    report, fake, _, _ = workspace.build(declare, jobs=1)
    assert fake.ran == ["//m:x#bad"]
    assert "//m:x#ok" in report.failed


def test_a_failed_action_is_not_remembered(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"
    for _ in range(2):
        assert "//m:x#bad" in workspace.build(broken)[1].ran


def test_a_failure_is_told_with_what_was_built_before(workspace: MemoryWorkspace) -> None:
    workspace.files["words"] = b"red green"

    def declare(on: Expander) -> list[Artifact]:
        plan, never = (
            act(on, "plan", "plan", SourceArtifact("words")),
            act(on, "never", "plan", SourceArtifact("words")),
        )
        made = []
        for name, reads in (("told", plan), ("plain", never)):
            error_text = ErrorText((reads,), lambda problem, data: f"{problem}: {data.decode()}")
            failing = on.action(name, step="fail", outputs=OUT, inputs={"in": plan}, name=name, error_text=error_text)
            made.append(failing["out"])
        return made

    _, fake, recorder, _ = workspace.build(declare, keep_going=True)
    failed = {e.id: e.problem for e in recorder.events if isinstance(e, ActionFinished) and e.status == "failed"}
    assert failed == {"//m:x#told": "no good: red green", "//m:x#plain": "no good"}
    assert "//m:x#never" not in fake.ran


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (BuildError("nothing takes aten.foo"), "nothing takes aten.foo"),
        (KeyError("aten.foo"), "KeyError: 'aten.foo' (scheduling/test_scheduler.py:LINE)"),
        ("some", "ValueError: it returned ['some']; expected ['all'], as promised"),
        (
            "all",
            "a file of the workspace: '../words' is not a path within a folder; expected names of at most"
            " 255 bytes joined by '/', in UTF-8 without control characters, none of them '', '.' or '..'",
        ),
    ],
    ids=["a problem", "a mistake", "another promise", "a path that leaves the workspace"],
)
def test_an_expansion_that_fails_says_why(workspace: MemoryWorkspace, error: Exception | str, problem: str) -> None:
    workspace.files["words"] = b"red"

    def then(inner: Expander, data: bytes) -> Mapping[str, Artifact]:
        if isinstance(error, str):
            return {error: SourceArtifact("../words")}
        raise error

    def declare(on: Expander) -> list[Artifact]:
        plan = act(on, "plan", "plan", SourceArtifact("words"))
        return [act(on, "last", "copy", on.expand(reads=plan, promises=["all"], then=then)["all"])]

    report, _, recorder, _ = workspace.build(declare)
    assert report.failed == {"//m:x#expand": "//m:x#expand", "//m:x#last": "//m:x#expand"}
    assert [e.problem for e in recorder.events if isinstance(e, ActionFinished) and e.status == "failed"] == [
        problem.replace("LINE", str(then.__code__.co_firstlineno + 3))
    ]


def test_ctrl_c_ends_the_running_actions_and_what_is_built_stays_known(workspace: MemoryWorkspace) -> None:
    workspace.files["f"] = b"one"

    def declare(on: Expander) -> list[Artifact]:
        return [act(on, "a", "copy", SourceArtifact("f")), act(on, "b", "hang", SourceArtifact("f"))]

    def interrupt(event: Event) -> None:
        if isinstance(event, ActionFinished):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workspace.build(declare, on_event=interrupt)
    assert workspace.scheduler.culprit([DerivedArtifact("//m:x#a", "out")]) is None
    assert workspace.scheduler.culprit([DerivedArtifact("//m:x#b", "out")]) == ""
    assert workspace.scheduler.keeping(lambda: 1) == 1


@pytest.mark.parametrize("change", ["params", "input", "name", "outputs", "step", "env", "cpu", "gpu"])
def test_everything_that_decides_the_output_is_in_the_key(workspace: MemoryWorkspace, change: str) -> None:
    def declare(changed: bool) -> Callable[[Expander], list[Artifact]]:
        def inner(on: Expander) -> list[Artifact]:
            def pick(what: str, a: Any, b: Any) -> Any:
                return b if changed and what == change else a

            made = on.action(
                "a",
                step=pick("step", "copy", "constant"),
                outputs=[Output("out", pick("outputs", "x", "y"))],
                inputs={pick("name", "in", "other"): SourceArtifact(pick("input", "f", "g"))},
                params={"p": pick("params", 1, 2)},
                env=pick("env", {}, {"A": "1"}),
                resources=Resources(cpu=pick("cpu", 1, 2), gpu=pick("gpu", 0, 1)),
            )
            return [made["out"]]

        return inner

    workspace.files.update(f=b"same", g=b"same")
    assert len(workspace.build(declare(False))[1].ran) == 1
    assert len(workspace.build(declare(False))[1].ran) == 0
    assert len(workspace.build(declare(True))[1].ran) == 1


def test_facts_that_decide_no_output_are_not_in_the_key(workspace: MemoryWorkspace) -> None:
    def declare(changed: bool) -> Callable[[Expander], list[Artifact]]:
        def inner(on: Expander) -> list[Artifact]:
            made = on.action(
                "b" if changed else "a",
                step="copy",
                outputs=OUT,
                inputs={"in": SourceArtifact("f")},
                unkeyed={"url": changed},
                preload=("json",) if changed else (),
                network=changed,
                resources=Resources(memory=(1 << 20) * (1 + changed)),
                description=str(changed),
            )
            return [made["out"]]

        return inner

    workspace.files["f"] = b"one"
    assert len(workspace.build(declare(False))[1].ran) == 1
    assert workspace.build(declare(True))[1].ran == []


def test_actions_elsewhere_take_no_resources_of_this_machine(workspace: MemoryWorkspace) -> None:
    workspace.files |= {"f": b"one", "g": b"two"}

    def two_large(on: Expander) -> list[Artifact]:
        large = Resources(memory=1 << 60, gpu=1)
        return [
            on.action("a", step="slow", outputs=OUT, inputs={"in": SourceArtifact(name)}, name=name, resources=large)[
                "out"
            ]
            for name in ("f", "g")
        ]

    # Both must be there at once: the step waits for the other one.
    report, fake, recorder, _ = workspace.build(two_large, jobs=1, elsewhere=2, runs_here=lambda action: False)
    assert not report.failed
    assert not fake.both.broken
    assert {each.worker for each in recorder.events if isinstance(each, ActionStarted)} == {1, 2}


def test_an_action_that_no_worker_ran_waits_for_a_slot_here(workspace: MemoryWorkspace) -> None:
    refused: set[str] = set()
    workspace.files |= {name: name.encode() for name in "fgh"}

    def three(on: Expander) -> list[Artifact]:
        return [act(on, name, "copy", SourceArtifact(name)) for name in "fgh"]

    def run(self: Fake, request: ActionRequest) -> Outcome:
        if request.action.id not in refused:
            refused.add(request.action.id)
            raise RunHere
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        outcome = plain(self, request)
        with self.lock:
            self.running -= 1
        return outcome

    plain = Fake.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fake, "run", run)
        report, fake, recorder, _ = workspace.build(
            three, jobs=1, elsewhere=3, runs_here=lambda action: action.id in refused
        )
    assert not report.failed
    assert sorted(fake.ran) == ["//m:x#f", "//m:x#g", "//m:x#h"]
    assert fake.most == 1
    assert len(recorder.ended("ran")) == 3
