"""The workspace of a team in its first week: a detector of their own, twelve models in four packages, three devices,
int8, bundles. Each command that such a team runs works, and a change reruns no more than it must."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.workspace_builder import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(3600), pytest.mark.xdist_group("newcomer")]

FILES = Path(__file__).with_name("newcomer")
PROGRAMS = {
    "detect": ["detector", "detector_int8"],
    "classify": ["mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "resnet18"],
    "segment": ["UNet", "Road", "Depth"],
    "audio": ["Keyword", "Event", "Denoiser"],
}
LABELS = [f"//{package}:{name}" for package, names in PROGRAMS.items() for name in names]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("team"))
    workspace.copy_in(FILES)
    return workspace


def ran(built: Any) -> set[str]:
    return {name for name, status in built.statuses.items() if status == "ran"}


def test_all_programs_are_checked_built_and_tested(team: Workspace) -> None:
    checked = team.run("check", "//...")
    assert checked.code == 0, checked.err
    for label in LABELS:
        assert re.search(rf"^{label}: .*xnnpack \d+ nodes in \d+ partition", checked.out, re.MULTILINE)
    team.build("//...")
    for package, names in PROGRAMS.items():
        for name in names:
            assert (team.root / f"modelbuild-out/devices~gateway/{package}/{name}/{name}.pte").is_file()
    tested = team.run("test", "//...")
    assert tested.code == 0, tested.out + tested.err
    assert f"{len(LABELS)} tests: {len(LABELS)} passed" in tested.out
    again = team.run("build", "//...")
    assert (again.code, again.err) == (0, "")
    assert "up to date" in again.out


def test_a_changed_layer_reruns_the_programs_of_its_model(team: Workspace) -> None:
    team.build("//...")
    team.edit("audio/nets.py", "nn.Linear(32, 12)", "nn.Linear(32, 13)")
    named = ran(team.build("//..."))
    assert {name.partition("#")[0] for name in named} <= {
        *(f"//audio:{name}{rest}" for name in PROGRAMS["audio"] for rest in ("", "_model"))
    }
    lowered = {name for name in named if "#partition" in name or "#compile" in name}
    assert {name.partition("#")[0] for name in lowered} == {"//audio:Keyword"}
    why = team.run("explain", "//audio:Keyword")
    assert "audio/nets.py changed" in why.out


def test_a_picture_goes_through_the_detector_here_and_in_a_bundle(team: Workspace, tmp_path: Path) -> None:
    Image.effect_noise((200, 150), 60).convert("RGB").save(team.root / "photo.jpg")
    refused = team.run("run", "//detect:detector", "--input", "image=photo.jpg")
    assert refused.code != 0
    assert "expected shape [1, 3, 96, 96]" in refused.err
    here = team.run("run", "//detect:detector", "--input", "image=photo.jpg", "--resize", "--output-dir", "out")
    assert here.code == 0, here.err
    team.build("//detect:gateway_bundle")
    bundle = team.root / "modelbuild-out/devices~gateway/detect/gateway_bundle/gateway_bundle"
    photo = str(team.root / "photo.jpg")
    command = [bundle / "run.sh", "detect", "--input", f"image={photo}", "--resize", "--output-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    for name in ("boxes", "scores", "labels"):
        assert (tmp_path / f"{name}.npy").read_bytes() == (team.root / f"out/{name}.npy").read_bytes()


def test_the_other_devices(team: Workspace) -> None:
    built = team.run("build", "//audio:Denoiser", "//classify:resnet18", "--device", "//devices:orin", "--json")
    assert built.code == 0, built.err
    inspected = team.run("inspect", "//classify:resnet18", "--device", "//devices:orin", "--json").json
    assert inspected["device"]["arch"] == "aarch64"
    checked = team.run("check", "//detect:detector", "--device", "//devices:server")
    assert checked.code == 0, checked.err
    assert "//detect:detector: cuda " in checked.out


def test_a_server_s_program_has_an_estimate(team: Workspace, know_runtime: Any) -> None:
    built = team.run("build", "//detect:detector", "--device", "//devices:server")
    assert built.code == 0, built.err
    cost = team.run("inspect", "--cost", "//detect:detector", "--device", "//devices:server").out
    assert cost.startswith("cost on NVIDIA GeForce RTX 4090, estimated: ")
    assert "aten.convolution.default" in cost


def test_the_report_of_the_quantized_detector(team: Workspace) -> None:
    report = team.run("quantize-report", "//detect:detector_int8_model")
    assert report.code == 0, report.err
    assert "metric agreement is " in report.out
