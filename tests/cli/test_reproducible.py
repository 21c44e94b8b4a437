"""A build from scratch gives the same bytes in any environment."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file

from tests.workspace_builder import Workspace

from .conftest import classifier_weights, classifier_workspace


def outputs(workspace: Any) -> dict[str, str]:
    """SHA-256 of everything that was laid out, by path."""
    folder = workspace.root / "modelbuild-out"
    files = [path for path in folder.glob("[!.]*/**/*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def blobs(workspace: Any) -> set[str]:
    """Return the digests of all outputs of actions, including intermediate results and printed text."""
    return {path.name for path in (workspace.cache / "cas").rglob("*") if path.is_file()}


def elsewhere(tmp_path: Path) -> Workspace:
    """Return an empty workspace and cache with different and longer paths."""
    return Workspace(tmp_path / "some where else" / ("deep" * 20))


def surroundings(tmp_path: Path) -> dict[str, str]:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    return {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PYTHONHASHSEED": "4242",
        "TZ": "Pacific/Apia",
        "LC_ALL": "C",
        "USER": "somebody",
        "HOSTNAME": "elsewhere",
    }


@pytest.mark.xdist_group("classifier")
def test_the_classifier(built_classifier: Any, repository: Path, tmp_path: Path) -> None:
    """Two partitions. Not only the program: each intermediate result too."""
    other = classifier_workspace(repository / "examples", elsewhere(tmp_path))
    built = other.build("//classifier:xnnpack", "--jobs=1", **surroundings(tmp_path)).statuses
    assert set(built.values()) == {"ran"}
    assert sum("#compile" in action for action in built) == 2
    assert len(outputs(other)) == 4
    assert outputs(other) == outputs(built_classifier)
    assert blobs(other) == blobs(built_classifier)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_classifier_as_two_engines(repository: Path, tmp_path: Path) -> None:
    """TensorRT's; and with other weights, those of its head alone are built again."""
    program = "//classifier:tensorrt"
    made = []
    for workspace, environment in (
        (Workspace(tmp_path / "short"), {}),
        (elsewhere(tmp_path), surroundings(tmp_path)),
    ):
        classifier_workspace(repository / "examples", workspace)
        split = 'min_block_size = 1, exclude_ops = ["aten.mean.dim"]'
        workspace.edit("classifier/BUILD.toml", 'workspace_size = "64MiB"', split)
        built = workspace.build(program, "--jobs=1", **environment).statuses
        assert set(built.values()) == {"ran"}
        assert {f"{program}#compile:p0", f"{program}#compile:p1"} <= set(built)
        made.append((outputs(workspace), blobs(workspace)))
    assert made[0] == made[1]
    weights = classifier_weights()
    weights["head.weight"][0, 0] += 1
    save_file(weights, workspace.root / "classifier/classifier.safetensors")
    again = {"//classifier:model#export", f"{program}#weights", f"{program}#compile:p1", f"{program}#emit"}
    assert workspace.ran(program, **environment) == again


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("name", ["detector", "detector_rtx"])
def test_the_detector(repository: Path, tmp_path: Path, name: str) -> None:
    made = []
    for workspace, jobs, environment in (
        (Workspace(tmp_path / "short"), "2", {"PYTHONHASHSEED": "1"}),
        (elsewhere(tmp_path), "1", surroundings(tmp_path)),
    ):
        workspace.copy_in(repository / "examples")
        assert set(workspace.build(f"//models:{name}", f"--jobs={jobs}", **environment).statuses.values()) == {"ran"}
        made.append((outputs(workspace), blobs(workspace)))
    assert made[0] == made[1]
