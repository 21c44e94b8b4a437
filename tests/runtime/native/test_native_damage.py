"""Programs that end with a manifest: any damage to them is an error before ExecuTorch or a delegate sees the bytes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild_runtime import ProgramError

Run = Callable[..., subprocess.CompletedProcess[str]]
Seal = Callable[[Path, Path], Path]


@pytest.fixture
def sealed(samples: dict[str, Any], seal_copy: Seal, tmp_path: Path) -> Callable[[str], Path]:
    """Return copies of samples with a manifest, and of the data beside them."""

    def copy(name: str) -> Path:
        source = samples[name].path
        for data in source.parent.glob("*.ptd"):
            seal_copy(data, tmp_path / f"{name}.ptd")
        return seal_copy(source, tmp_path / f"{name}.pte")

    return copy


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """Flags for the samples two, xnnpack and external."""
    for name, shape in (("x", (2, 4)), ("y", (2, 3))):
        np.save(tmp_path / f"{name}.npy", np.ones(shape, np.float32))
    return [f"--input=input0={tmp_path}/x.npy", f"--input=input1={tmp_path}/y.npy"]


@pytest.mark.parametrize("name", ["two", "xnnpack", "external"])
def test_a_manifest_changes_no_result(
    name: str, samples: dict[str, Any], sealed: Callable[[str], Path], modelbuild_run: Run, inputs: list[str]
) -> None:
    """In modelbuild-run, and in Python."""
    path = sealed(name)
    done = modelbuild_run(path, *inputs, f"--output-dir={path.parent}")
    assert (done.returncode, done.stderr) == (0, "")
    arrays = [np.ones(shape, np.float32) for shape in ((2, 4), (2, 3))]
    found = modelbuild_runtime.load(path).run(arrays)
    for number, reference in enumerate(samples[name].eager(*arrays)):
        np.testing.assert_allclose(np.load(path.parent / f"output{number}.npy"), reference, atol=1e-5)
        np.testing.assert_allclose(found[f"output{number}"], reference, atol=1e-5)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


DIGEST = "its SHA-256 is not the one in its manifest"
CUT = "its manifest is cut off or overwritten"
DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "in the flatbuffer": (lambda data: flipped(data, 200), DIGEST),
    "in a delegate's blob": (lambda data: flipped(data, data.index(b"XH00") + 100), DIGEST),
    "in the manifest's text": (lambda data: flipped(data, data.rindex(b'{"version"')), DIGEST),
    "in the digest": (lambda data: flipped(data, len(data) - 20), DIGEST),
    "in the magic": (lambda data: flipped(data, len(data) - 1), CUT),
    "in the magic and a blob": (lambda d: flipped(flipped(d, len(d) - 1), d.index(b"XH00") + 100), CUT),
    "in the key of the manifest": (lambda data: flipped(data, data.index(b"modelbuild.manifest")), DIGEST),
    "more bytes": (lambda data: data + b"\0", CUT),
    "zeros at the end": (lambda data: data[:-1000] + bytes(1000), CUT),
    "cut in the manifest": (lambda data: data[:-1], CUT),
    "cut in a blob": (lambda data: data[: data.index(b"XH00") + 100], CUT),
    "cut in the flatbuffer": (lambda data: data[:1000], CUT),
    "cut at the start": (lambda data: data[:40], "not an ExecuTorch program"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_one_line_and_exit_code_1(
    what: str, sealed: Callable[[str], Path], modelbuild_run: Run, inputs: list[str]
) -> None:
    path = sealed("xnnpack")
    damage, why = DAMAGE[what]
    path.write_bytes(damage(path.read_bytes()))
    for arguments in (inputs, ["--describe"]):
        done = modelbuild_run(path, *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: {path}: ")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
    for load in (modelbuild_runtime.read_description, modelbuild_runtime.load):
        with pytest.raises(ProgramError) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: ")
        own = load is modelbuild_runtime.read_description
        assert why in str(caught.value) or (not own and "its manifest cannot be read" in str(caught.value))


def test_damaged_data_beside_a_program_are_refused(
    sealed: Callable[[str], Path], modelbuild_run: Run, inputs: list[str]
) -> None:
    path = sealed("external")
    data = path.with_suffix(".ptd")
    whole = data.read_bytes()
    for bad, why in ((flipped(whole, 300), DIGEST), (whole[:-1], CUT), (whole[:-8] + bytes(8), CUT)):
        data.write_bytes(bad)
        done = modelbuild_run(path, *inputs)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: {data}: ")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
        with pytest.raises(ProgramError, match=f"^{data}: "):
            modelbuild_runtime.load(path)


def test_the_digest_is_not_looked_at_where_the_caller_says_so(
    sealed: Callable[[str], Path], modelbuild_run: Run, inputs: list[str]
) -> None:
    path = sealed("xnnpack")
    path.write_bytes(flipped(path.read_bytes(), path.stat().st_size - 20))
    assert modelbuild_run(path, *inputs).returncode == 1
    done = modelbuild_run(path, *inputs, "--no-verify")
    assert (done.returncode, done.stderr) == (0, "")
    arrays = [np.ones(shape, np.float32) for shape in ((2, 4), (2, 3))]
    assert len(modelbuild_runtime.load(path, verify=False).run(arrays)) == 2


def test_the_digest_is_sha256(sealed: Callable[[str], Path]) -> None:
    """The digest is that of sha256sum over all but the last 40 bytes."""
    path = sealed("two")
    covered = path.read_bytes()[:-40]
    done = subprocess.run(["sha256sum"], input=covered, capture_output=True, check=True)
    assert bytes.fromhex(done.stdout.split()[0].decode()) + b"mbmanif1" == path.read_bytes()[-40:]


def test_sha256_by_instructions_and_without(native: Path, tmp_path: Path) -> None:
    """Digests for every length around the ends of blocks, by both implementations in the library."""
    done = subprocess.run([native / "bin/sha256_check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "300 lengths\n"), done.stdout


def test_planned_memory_that_the_machine_does_not_have(
    samples: dict[str, Any], modelbuild_run: Run, inputs: list[str], tmp_path: Path
) -> None:
    whole = samples["two"].path.read_bytes()
    (size,) = [method.planned_bytes for method in modelbuild_runtime.load(samples["two"].path).describe().methods]
    sizes = np.array([0, size], np.int64).tobytes()
    assert whole.count(sizes) == 1
    path = tmp_path / "huge.pte"
    path.write_bytes(whole.replace(sizes, np.array([0, 1 << 60], np.int64).tobytes()))
    done = modelbuild_run(path, *inputs)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {path} takes {1 << 60} bytes of memory, and this machine has ")


def test_a_kernel_that_gets_something_else_is_an_error(
    samples: dict[str, Any], modelbuild_run: Run, inputs: list[str], tmp_path: Path
) -> None:
    """ExecuTorch would end the process if an argument has another kind than a kernel expects."""
    whole = samples["two"].path.read_bytes()
    path = tmp_path / "other.pte"
    refused = 0
    for at in range(600, 1200, 4):
        path.write_bytes(whole[:at] + bytes(1) + whole[at + 1 :])
        done = modelbuild_run(path, *inputs)
        assert done.returncode in (0, 1, 2), (at, done)
        refused += "is of another kind" in done.stderr
    assert refused
