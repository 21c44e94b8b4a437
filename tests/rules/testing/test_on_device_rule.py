"""pte_test with on_device: its actions, what is in its keys, and errors in its declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import modelbuild
from modelbuild.actions import Action, FileEntry, SourceArtifact, StagedInput
from modelbuild.analysis.rules import load_rules
from modelbuild.code.step_sources import StepCode
from modelbuild.errors import LoadingError
from modelbuild.execution.keys import key_of, material_of
from modelbuild.execution.resolver import Resolver
from modelbuild.rule_runner import RuleRunner
from modelbuild.session.source_files import Sources
from modelbuild.store.digests import digest_file
from modelbuild.store.local import open_store
from tests.program_build import program_build

TEST = """
[[device_runner]]
name = "near"
connection = { type = "ssh", host = "near.lab" }

[[device_target]]
name = "other"
arch = "aarch64"

[[pte_test]]
name = "test"
program = ":program"
model = ":model"
device = ":device"
runtime = { archive = "runtime.tar" }
on_device = true
cases = [{ name = "drawn", generator = { seed = 1 } }]
"""
SAME = FileEntry(digest_file(Path(__file__)))  # represents outputs of earlier actions
PC = {"arch": "x86_64", "model": "PC", "gpu": "NVIDIA L4, 8.9, 580.1"}

Keyed = Callable[..., dict[str, str]]


@pytest.fixture
def actions(tmp_path: Path) -> Callable[..., dict[str, Action]]:
    """Return the actions of the test, by mnemonic."""

    def declared(more: str = "", device: str = 'runners = [":near"]', test: str = TEST) -> dict[str, Action]:
        build = program_build('{ type = "portable" }', entry="net.py:Net", device=device)
        runner = RuleRunner(tmp_path, {"BUILD.toml": build + test + more, "net.py": "", "runtime.tar": ""})
        return {action.mnemonic: action for action in runner.target("//:test").actions.values()}

    return declared


@pytest.fixture
def keys(tmp_path: Path, actions: Callable[..., dict[str, Action]]) -> Keyed:
    """Return their keys, for a device with an identity."""

    def keyed(more: str = "", identity: Mapping[str, str] = PC, **given: str) -> dict[str, str]:
        def staged(action: Action) -> list[StagedInput]:
            return [
                StagedInput(
                    each.name, each.path, None, FileEntry(store.put_bytes((tmp_path / each.artifact.path).read_bytes()))
                )
                if isinstance(each.artifact, SourceArtifact)
                else StagedInput(each.name, each.path, None, SAME)
                for each in action.inputs
            ]

        roots = {"modelbuild": Path(modelbuild.__file__).parent, **load_rules(tmp_path, ()).packages}
        with open_store(tmp_path / "store") as store:
            making = Resolver(
                StepCode(roots), tmp_path, store.read_bytes, Sources(tmp_path, store), identity=lambda job: identity
            )
            declared = actions(more, **given)
            return {name: key_of(material_of(making.resolve(each, staged(each)))) for name, each in declared.items()}

    return keyed


def test_the_device_gets_the_bundle_and_the_cases(actions: Callable[..., dict[str, Action]]) -> None:
    declared = actions("timeout = 7\n")
    assert declared.keys() == {"bundle", "cases", "test", "taps", "plan-taps", "find-partition", "bisect"}
    job = declared["test"].device
    assert job is not None
    assert (job.label, job.inputs, job.plan, job.seconds) == ("//:device", ("bundle", "cases"), "cases", 7.0)
    assert [runner.host for runner in job.spec.runners] == ["near.lab"]
    assert {name for name, each in declared.items() if each.device is not None} == {"test", "find-partition", "bisect"}
    jobs = [each.device for name in ("find-partition", "bisect") if (each := declared[name])]
    assert [each and (each.plan, each.inputs) for each in jobs] == [
        ("plan", ("bundle", "cases", "taps", "plan")),
        ("wrong", ("bundle", "wrong")),
    ]


@pytest.mark.parametrize("fact", ["model", "gpu", "driver", "image"])
def test_the_devices_identity_is_in_the_keys_of_what_runs_there_alone(keys: Keyed, fact: str) -> None:
    here, there = keys(), keys(identity={**PC, fact: "another"})
    assert {name for name in here if here[name] != there[name]} == {"test", "find-partition", "bisect"}


def test_the_way_to_the_device_and_the_timeout_are_in_no_key(keys: Keyed) -> None:
    assert keys() == keys(device="runners = []") == keys("timeout = 7\n")


def test_the_runtime_and_the_measurement_are_in_the_keys(keys: Keyed) -> None:
    changed = {
        "latency = { runs = 9 }\n": {"cases"},  # and the test's, by the cases' content
        'latency = { max = { ":device" = "8 ms" } }\n': {"test"},
        'latency = { p95 = { "//:device" = "8 ms" } }\n': {"test"},
        "limits = { bytes = 9 }\n": {"test"},
    }
    plain = keys()
    for more, names in changed.items():
        found = keys(more)
        assert {name for name in plain if plain[name] != found[name]} == names, more
    without = keys(test=TEST.replace("on_device = true", ""))
    assert without["test"] != plain["test"]


WRONG = [
    (
        'latency = { max = { "//:devise" = "8 ms" } }',
        "no limit for //:device; expected one for each device; did you mean",
    ),
    (
        'latency = { max = { "//:device" = "8 m" } }',
        "'8 m' is not a latency; expected one such as '8 ms', '250 us' or '1.5 s'",
    ),
    ('latency = { max = { "//:device" = "0 ms" } }', "'0 ms' is not a latency"),
    ('latency = { max = { "//:device" = 8 } }', "'8.0' is not a latency"),
    (
        "latency = { ratio = 2 }",
        "latency.ratio is for tests on this machine, and not with on_device; expected latency.max",
    ),
    ("gpus = 1", "gpus is for tests on this machine, and not with on_device; expected none: the device has its own"),
    ("limits = { memory = 9 }", "limits.memory is for tests on this machine"),
    ('latency = { baseline = ":program" }', "latency.baseline is for tests on this machine"),
]


@pytest.mark.parametrize(("line", "problem"), WRONG)
def test_a_wrong_attribute_has_its_place(actions: Callable[..., dict[str, Action]], line: str, problem: str) -> None:
    with pytest.raises(LoadingError) as caught:
        actions(f"{line}\n")
    assert problem in str(caught.value)
    assert str(caught.value).startswith("BUILD.toml:")


def test_latencies_need_on_device_and_on_device_needs_a_device(actions: Callable[..., dict[str, Action]]) -> None:
    here = TEST.replace("on_device = true", 'latency = { max = { "//:device" = "8 ms" } }')
    instead = "'on_device = true' or 'latency.estimated = true'"
    with pytest.raises(LoadingError, match=rf"latency\.max is measured on a device; expected {instead} as well"):
        actions(test=here)
    with pytest.raises(LoadingError, match="no device for //:test: expected the attribute 'device'"):
        actions(test=TEST.replace('device = ":device"\n', ""))
