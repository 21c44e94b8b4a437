"""After one change, exactly the actions that it can affect run again."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from safetensors.numpy import load_file, save_file

# One worker makes the build that all these tests copy.
pytestmark = pytest.mark.xdist_group("classifier")

BUILD = "classifier/BUILD.toml"
SOURCE = "classifier/classifier.py"
MODEL, PROGRAM = "//classifier:model", "//classifier:xnnpack"
EXPORT, PARTITION, EMIT, VERIFY = f"{MODEL}#export", *(f"{PROGRAM}#{step}" for step in ("partition", "emit", "verify"))
# p0 holds the features up to the mean, which XNNPACK leaves to the portable kernels; p1 the head.
WEIGHTS = f"{PROGRAM}#weights"
P0, P1, P2 = (f"{PROGRAM}#compile:p{number}" for number in range(3))
S0, S1, S2 = (f"{PROGRAM}#store:p{number}" for number in range(3))
LINK = {EMIT, VERIFY}
LOWER = {PARTITION, WEIGHTS}
ALL = {EXPORT, *LOWER, P0, P1, S0, S1, *LINK}


def edited(name: str, old: str, new: str) -> Callable[[Any], None]:
    return lambda workspace: workspace.edit(name, old, new)


def reweighted(name: str) -> Callable[[Any], None]:
    """Change one number of one tensor."""

    def change(workspace: Any) -> None:
        path = workspace.root / "classifier/classifier.safetensors"
        weights = load_file(path)
        weights[name].flat[-1] += 1
        save_file(weights, path)

    return change


def touched(workspace: Any) -> None:
    """New times and inodes for the same contents."""
    for name in (BUILD, SOURCE, "classifier/classifier.safetensors"):
        path = workspace.root / name
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)


def unrelated(workspace: Any) -> None:
    workspace.edit("models/nets.py", "nn.PReLU", "nn.ReLU")
    path = workspace.root / BUILD
    path.write_text(path.read_text() + '[[filegroup]]\nname = "sources"\nsrcs = { glob = ["*.py"] }\n')


class Row(NamedTuple):
    change: Callable[[Any], None]
    ran: set[str]
    arguments: tuple[str, ...] = ()
    all: frozenset[str] = frozenset(ALL)


TABLE = {
    "nothing": Row(lambda workspace: None, set()),
    "times, not contents": Row(touched, set()),
    "comment in the source": Row(
        edited(SOURCE, "    def forward", "    # Normalized here.\n\n    def forward"), {EXPORT}
    ),
    "comment in BUILD.toml": Row(edited(BUILD, "[[pte_program]]", "# A comment.\n[[pte_program]]"), set()),
    "licence and source of the model": Row(
        edited(BUILD, 'name = "model"', 'name = "model"\nlicense = "MIT"\nsource = "https://host.example/net"'), set()
    ),
    "unrelated target": Row(unrelated, set()),
    "weight of the first partition": Row(reweighted("features.2.weight"), {EXPORT, WEIGHTS, S0, *LINK}),
    "weight of the second partition": Row(reweighted("head.bias"), {EXPORT, WEIGHTS, S1, *LINK}),
    "layer of the first partition": Row(
        edited(SOURCE, "nn.ReLU(),\n        )", "nn.Sigmoid(),\n        )"), {EXPORT, *LOWER, P0, S0, *LINK}
    ),
    "layer of the second partition": Row(
        edited(SOURCE, "self.head(features)", "self.head(features).sigmoid()"), {EXPORT, *LOWER, P1, S1, *LINK}
    ),
    # A partition's number is in no key: p1 and p2 equal the former p0 and p1.
    "operators in front that are a partition of their own": Row(
        edited(SOURCE, "        features =", "        image = image.sigmoid().cumsum(dim=-1)\n        features ="),
        {EXPORT, *LOWER, P0, S0, *LINK},
        all=frozenset({*ALL, P2, S2}),
    ),
    "layer between partitions": Row(edited(SOURCE, "mean(dim=(2, 3))", "amax(dim=(2, 3))"), {EXPORT, *LOWER, *LINK}),
    "input shape": Row(edited(BUILD, "[1, 3, 64, 64]", "[1, 3, 32, 32]"), {EXPORT, *LOWER, P0, S0, *LINK}),
    # The range is in the signature, which the program's manifest contains.
    "input range": Row(edited(BUILD, "[0, 255]", "[0, 1]"), {EXPORT, EMIT, VERIFY}),
    "stack attribute that changes partitions": Row(
        edited(BUILD, '["xnnpack"', '[{ type = "xnnpack", exclude_ops = ["aten._softmax.default"] }'),
        {*LOWER, P1, S1, *LINK},
    ),
    "stack attribute that changes none here": Row(
        edited(BUILD, '["xnnpack"', '[{ type = "xnnpack", precisions = ["fp32"] }'), {*LOWER, VERIFY}
    ),
    "device attribute that nothing here depends on": Row(
        edited(BUILD, 'name = "cpu"', 'name = "cpu"\nmemory = "8GiB"\nmin_glibc = "2.31"'), set()
    ),
    # Only the program's manifest names the device.
    "another device": Row(
        lambda workspace: None,
        {f"{PROGRAM} (//classifier:other)#{step}" for step in ("emit", "verify")},
        ("--device=//classifier:other",),
    ),
}


# Cases that the others cover partly.
REST = {
    "operators in front that are a partition of their own",
    "weight of the second partition",
    "layer of the first partition",
    "input shape",
    "layer of the second partition",
    "layer between partitions",
    "input range",
    "stack attribute that changes none here",
}


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.exhaustive if c in REST else ()) for c in TABLE])
def test_reruns_after_a_change(classifier: Any, case: str) -> None:
    row = TABLE[case]
    row.change(classifier)
    statuses = classifier.build(PROGRAM, *row.arguments).statuses
    assert {id.replace(" (//classifier:other)", "") for id in statuses} == row.all
    assert {id for id, status in statuses.items() if status == "ran"} == row.ran


@pytest.mark.parametrize(
    ("tool", "ran"),
    [
        pytest.param("safetensors", {EXPORT, VERIFY}, marks=pytest.mark.exhaustive),
        # executorch, which all of the steps except emit name, requires these two; emit names flatbuffers.
        ("flatbuffers", ALL),
        pytest.param("torchao", ALL - {EMIT}, marks=pytest.mark.exhaustive),
    ],
)
def test_another_version_of_a_tool_reruns_the_steps_that_name_or_require_it(
    classifier: Any, tmp_path: Path, tool: str, ran: set[str]
) -> None:
    """Change the version in a package's metadata; its code and its results stay the same."""
    info = tmp_path / "shadow" / f"{tool}-99.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {tool}\nVersion: 99.0\n")
    installed = metadata.distribution(tool)
    record = (installed.read_text("RECORD") or "").replace(f"{tool}-{installed.version}.dist-info", info.name)
    (info / "RECORD").write_text(record)
    for folder in {line.partition("/")[0] for line in record.splitlines()} - {"..", info.name}:
        (info.parent / folder).symlink_to(installed.locate_file(folder))
    path = [str(info.parent), *classifier.environment().get("PYTHONPATH", "").split(":")]
    assert classifier.ran(PROGRAM, PYTHONPATH=":".join(filter(None, path))) == ran
    assert classifier.ran(PROGRAM) == set()


@pytest.mark.exhaustive
def test_attributes_of_compiling_rerun_only_compiling(classifier: Any) -> None:
    """TensorRT's workspace and the device's compute capability decide engines, but not the division into partitions."""
    program = "//classifier:tensorrt"
    first = classifier.build(program).statuses
    assert first == {
        EXPORT: "cached",
        **dict.fromkeys((f"{program}#{step}" for step in ("partition", "weights", "compile:p0", "emit")), "ran"),
    }
    classifier.edit(BUILD, '"64MiB"', '"128MiB"')
    classifier.edit(BUILD, '["8.6"]', '["8.9"]')
    assert classifier.ran(program) == {f"{program}#compile:p0", f"{program}#emit"}
