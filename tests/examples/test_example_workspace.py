"""The example workspace through the command line: built, run on real photos, compared with eager PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("bundles")

FACE = np.array([177.0, 60, 267, 174])
"""x1, y1, x2, y2 of the astronaut's face on the photo."""


class Examples(Workspace):
    """A copy of examples/."""

    def passed(self, *targets: str) -> dict[str, list[str]]:
        """Run tests, which must pass; return the cases of each test."""
        tests = self.test(*targets, "--require-all")
        assert {test["status"] for test in tests.values()} == {"passed"}
        return {label: [case["name"] for case in test["cases"]] for label, test in tests.items()}

    def outputs(self, target: str, photo: str | Path, folder: Path) -> dict[str, np.ndarray]:
        """Run a program on a photo; its outputs by name."""
        ended = self.run("run", target, f"--input=image={photo}", f"--output-dir={folder}", "--repeat=1", "--warmup=0")
        assert ended.code == 0, ended.err
        return {path.stem: np.load(path) for path in folder.glob("*.npy")}


@pytest.fixture
def workspace(repository: Path, tmp_path: Path, example_cache: Path) -> Examples:
    made = Examples(tmp_path, cache=example_cache)
    made.copy_in(repository / "examples")
    return made


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes (4,)."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = float(np.prod(sides.clip(min=0)))
    return shared / float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


def matches(boxes: np.ndarray, others: np.ndarray) -> list[int]:
    """Return the row of each box's counterpart among the others; equally good faces may come in any order."""
    found = [[row for row, other in enumerate(others) if overlap(box, other) > 0.99] for box in boxes]
    assert sorted(found) == [[row] for row in range(len(others))]
    return [row for (row,) in found]


@torch.no_grad()
def eager(detector: Any, photo: Path) -> dict[str, np.ndarray]:
    with Image.open(photo) as image:
        pixels = torch.from_numpy(np.asarray(image.convert("RGB"), dtype=np.float32))
    names = ("boxes", "scores", "landmarks")
    return {
        name: output.numpy()
        for name, output in zip(names, detector(pixels.permute(2, 0, 1)[None].contiguous()), strict=True)
    }


def edited(photo: Path, folder: Path) -> dict[str, Path]:
    """Return variants of the photo by kind of change."""
    with Image.open(photo) as opened:
        image = opened.convert("RGB")
    four = Image.new("RGB", image.size)
    half = image.resize((256, 256))
    for x, y in ((0, 0), (256, 0), (0, 256), (256, 256)):
        four.paste(half.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if x else half, (x, y))
    made = {
        "flipped": image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        "shifted": Image.fromarray(np.roll(np.asarray(image), (-50, 37), axis=(0, 1))),
        "four": four,
        "black": Image.new("RGB", image.size),
    }
    for name, picture in made.items():
        picture.save(folder / f"{name}.png")
    return {name: folder / f"{name}.png" for name in made}


@pytest.mark.slow
@pytest.mark.parametrize("names", [["four"], ["flipped", "shifted", "black"]])
@pytest.mark.exhaustive
def test_the_detector_finds_what_it_finds_in_eager_pytorch(
    names: list[str], workspace: Examples, detector: Any, third_party: Mapping[str, Path], tmp_path: Path
) -> None:
    workspace.build("//models:detector")
    photos = edited(third_party["astronaut"], tmp_path)
    for name in names:
        found = workspace.outputs("//models:detector", photos[name], tmp_path / name)
        expected = eager(detector, photos[name])
        assert found.keys() == expected.keys()
        assert len(found["boxes"]) == len(expected["boxes"]) == {"black": 0, "four": 4}.get(name, 1), name
        same = matches(found["boxes"], expected["boxes"])
        np.testing.assert_allclose(found["scores"], expected["scores"][same], atol=1e-4)
        np.testing.assert_allclose(found["landmarks"], expected["landmarks"][same], atol=0.1)


@pytest.mark.slow
def test_the_detector_finds_the_face_and_its_tests_pass(workspace: Examples, tmp_path: Path) -> None:
    face = workspace.outputs("//models:detector", "//third_party:astronaut", tmp_path / "face")
    assert face["scores"].tolist() == pytest.approx([1], abs=0.01)
    assert overlap(face["boxes"][0], FACE) > 0.9
    assert workspace.ran("//models:detector") == set()
    tested = workspace.passed("//models:detector_test", "//models:boxes_test")
    assert tested["//models:detector_test"] == ["astronaut", "noise", "limits.bytes", "backend of onet.conv1"]
    assert len(tested["//models:boxes_test"]) == 5


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_stack_decides_who_computes_and_not_what(workspace: Examples, tmp_path: Path) -> None:
    """One matrix declares two programs with the same probabilities, with XNNPACK and without."""
    np.save(tmp_path / "image.npy", np.random.default_rng(0).uniform(0, 255, (1, 3, 64, 64)).astype(np.float32))
    outputs = {
        stack: workspace.outputs(f"//models:classifier_{stack}", tmp_path / "image.npy", tmp_path / stack)
        for stack in ("xnnpack", "portable")
    }
    for output in outputs.values():
        assert output["probabilities"].shape == (1, 10)
        assert output["probabilities"].sum() == pytest.approx(1)
    np.testing.assert_allclose(outputs["xnnpack"]["probabilities"], outputs["portable"]["probabilities"], atol=1e-6)
    reports = {s: workspace.root / f"modelbuild-out/cpu/models/classifier_{s}/delegation.json" for s in outputs}
    backends = {s: {node["backend"] for node in json.loads(path.read_text())["nodes"]} for s, path in reports.items()}
    assert "xnnpack" in backends["xnnpack"]
    assert backends["portable"] == {"portable"}
    tested = workspace.passed("//models/...", "-//models:detector_test", "-//models:boxes_test")
    assert tested == {f"//models:classifier_{stack}_test": [f"drawn[{n}]" for n in range(3)] for stack in outputs}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_detector_with_8_bit_layers_finds_the_same_face_in_half_the_bytes(workspace: Examples) -> None:
    cases = workspace.passed("//models:detector_int8_test")
    assert cases == {"//models:detector_int8_test": ["astronaut", "limits.bytes"]}


@pytest.mark.slow
def test_the_language_model_generates_the_tokens_of_eager_pytorch(workspace: Examples) -> None:
    assert workspace.passed("//models:llm_test") == {"//models:llm_test": ["generated", "two_prompts"]}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_language_model_with_8_bit_layers_generates_the_same_tokens_in_half_the_bytes(workspace: Examples) -> None:
    assert workspace.passed("//models:llm_int8_test", "//models:llm_int8_float_test") == {
        "//models:llm_int8_test": ["generated"],
        "//models:llm_int8_float_test": ["generated"],
    }
    workspace.build("//models:llm", "//models:llm_int8")
    sizes = {
        name: (workspace.root / f"modelbuild-out/cpu/models/{name}/{name}.pte").stat().st_size
        for name in ("llm", "llm_int8")
    }
    assert sizes["llm_int8"] < sizes["llm"] / 2


@pytest.mark.slow
def test_the_heads_of_a_backbone_are_methods_of_one_program(workspace: Examples) -> None:
    """Of two programs it would be the sum: the backbone is there once."""
    cases = [f"drawn[{n}]" for n in range(3)]
    tests = ("//models:classify_test", "//models:embed_test")
    assert workspace.passed(*tests) == dict.fromkeys(tests, cases)
    assert workspace.build("//models:heads", "//models:classifier_xnnpack").code == 0
    sizes = {
        name: (workspace.root / f"modelbuild-out/cpu/models/{name}/{name}.pte").stat().st_size
        for name in ("heads", "classifier_xnnpack")
    }
    assert sizes["heads"] < 1.3 * sizes["classifier_xnnpack"]
