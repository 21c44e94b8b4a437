"""Damaged files by the thousand, with the address and undefined-behaviour sanitizers: no crash, no leak, no run of more
than 20 seconds and no allocation of more than 256 MB. FUZZ_RUNS and FUZZ_SEED set their number and
the seed, FUZZ_PROGRAMS names more .pte files to damage; `make fuzz` runs a million."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild.trust.signatures import SigningKey, sign
from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob
from tests.runtime.native.fuzz_programs import write_programs
from tests.runtime.native.pictures import pictures
from tests.trust.keys import write_key

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sanitizers"), pytest.mark.timeout(0)]

RUNS = int(os.environ.get("FUZZ_RUNS", "5000"))
SEED = os.environ.get("FUZZ_SEED", "1")
GIVEN = [Path(name).resolve() for name in os.environ.get("FUZZ_PROGRAMS", "").split()]

# How many of 100 runs each takes.
SHARES = {"program": 20, "data": 10, "signature": 5, "npy": 10, "picture": 10, "blob": 10, "load": 20, "trust": 5}
SHARE_OF_RUNS = 25
SEALED = {"xnnpack": 5, "planned TensorRT": 5, "planned CUDA": 5, "external": 5}


@pytest.fixture(scope="session")
def fuzzers(builder: Any, repository: Path) -> Path:
    """Return the fuzz targets, compiled with the address and undefined-behaviour sanitizers."""
    folder: Path = builder.build(repository / "build/runtime-address", "address,undefined", True, targets=["fuzz"])
    return folder


@pytest.fixture
def fuzz(fuzzers: Path, lay_out_fakes: Callable[[Path], Any], sanitizer_options: dict[str, str]) -> Callable[..., str]:
    """Run one of these programs on fake GPUs; return its output."""
    fake_gpus = lay_out_fakes(fuzzers)
    limits = "detect_leaks=1:max_allocation_size_mb=256:allocator_may_return_null=1"

    def run(program: str, *arguments: str | Path) -> str:
        done = fake_gpus(program, *arguments, **{**sanitizer_options, "ASAN_OPTIONS": limits})
        # Too large requests to malloc fail, and the program reports them.
        lines = [line for line in done.stderr.splitlines() if "AddressSanitizer failed to allocate" not in line]
        assert (done.returncode, lines) == (0, [])
        printed: str = done.stdout
        return printed

    return run


@pytest.fixture(scope="session")
def sealed_programs(
    samples: dict[str, Any],
    trt_programs: dict[str, Path],
    cuda_programs: dict[str, Path],
    seal_copy: Callable[[Path, Path], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[Path]]:
    """Return programs that end with a manifest, by content, with their data."""
    folder = tmp_path_factory.mktemp("sealed")
    external = samples["external"].path
    sources = {
        "xnnpack": [samples["xnnpack"].path],
        "planned TensorRT": [trt_programs["planned"]],
        "planned CUDA": [cuda_programs["planned"]],
        "external": [external, *external.parent.glob("*.ptd")],
    }
    return {
        name: [seal_copy(path, folder / f"{name}{path.suffix}") for path in paths] for name, paths in sources.items()
    }


@pytest.fixture(scope="session")
def seeds(
    samples: dict[str, Any],
    trt_programs: dict[str, Path],
    cuda_programs: dict[str, Path],
    sealed_programs: dict[str, list[Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[Path]]:
    """Whole files for each target."""
    folder = tmp_path_factory.mktemp("seeds")
    plain = [sample.path for sample in samples.values()]
    every = [path for paths in sealed_programs.values() for path in paths]
    data = [*samples["external"].path.parent.glob("*.ptd"), *(path for path in every if path.suffix == ".ptd")]
    # Delegates that check their blobs: for CUDA, blobs without a library.
    checked = [*trt_programs.values(), *(cuda_programs[name] for name in ("broken", "theirs", "keyless"))]
    return {
        "program": [
            *GIVEN,
            *plain,
            *trt_programs.values(),
            *cuda_programs.values(),
            *(p for p in every if p.suffix == ".pte"),
        ],
        "data": data,
        "signature": _signatures(folder),
        "npy": _arrays(folder),
        "picture": _pictures(folder),
        "blob": [*_blobs(folder)],
        "load": [*(path for path in plain if path.stem != "xnnpack"), *checked],
        "trust": _trust(folder),
    }


def _signatures(folder: Path) -> list[Path]:
    batch = {"batch": {"min": 1, "max": 8}}
    port = {"name": "x", "dtype": "float32", "shape": ["batch", 4], "dynamic": batch, "range": [0, 1]}
    ports = {"inputs": [port], "outputs": [{**port, "name": "y"}]}
    path = folder / "signature.json"
    path.write_text(json.dumps({"version": 2, "methods": {"forward": ports}}))
    return [path]


def _trust(folder: Path) -> list[Path]:
    """Return a signature, and in files of their own its statement and its DER, and a public key."""
    key, signed, paths = write_key(folder, "key"), folder / "signed", [folder / name for name in ("sig", "json", "der")]
    signed.mkdir()
    (signed / "net.pte").write_bytes(b"a program")
    paths[0].write_bytes(sign(signed, SigningKey(key)))
    envelope = json.loads(paths[0].read_bytes())["dsseEnvelope"]
    paths[1].write_bytes(base64.b64decode(envelope["payload"]))
    paths[2].write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    return [*paths, key.with_suffix(".pub")]


def _arrays(folder: Path) -> list[Path]:
    paths = []
    for number, dtype in enumerate(("float32", "uint8", "int64", "bool", "float16")):
        array = np.arange(24).reshape(2, 3, 4).astype(dtype)
        for version, each in (((1, 0), array), ((2, 0), np.asfortranarray(array)), ((3, 0), array[0, 0, 0])):
            content = io.BytesIO()
            np.lib.format.write_array(content, each, version=version)
            paths.append(folder / f"{number}.{version[0]}.npy")
            paths[-1].write_bytes(content.getvalue())
    return paths


def _pictures(folder: Path) -> list[Path]:
    (folder / "pictures").mkdir()
    for name, content in pictures().items():
        (folder / "pictures" / name).write_bytes(content)
    return [*(folder / "pictures").iterdir()]


def _blobs(folder: Path) -> list[Path]:
    aliased = (("y", "x", "kv_cache_update"),)
    for name, metadata in (
        ("plain", Metadata(("a", "b"), ("c",), 3)),
        ("alias", Metadata(("x",), ("y",), 0, "", aliased)),
    ):
        write_blob(folder / name, metadata, b"engine of sixteen" * 4)
    return [folder / "plain", folder / "alias"]


@pytest.mark.parametrize("target", SHARES)
def test_any_bytes_are_an_error_or_read(
    target: str, fuzz: Callable[..., str], seeds: dict[str, list[Path]], tmp_path: Path
) -> None:
    runs = RUNS * SHARES[target] // 100
    assert fuzz(f"fuzz_{target}", str(runs), SEED, tmp_path / "last", *seeds[target]) == f"{runs} runs\n"


@pytest.fixture(scope="session")
def running(
    samples: dict[str, Any], sealed_programs: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """Programs that run without more files."""
    own = [sample.path for name, sample in samples.items() if name != "external"]
    return [*GIVEN, *own, *sealed_programs["xnnpack"], *write_programs(tmp_path_factory.mktemp("running"))]


def test_a_damaged_program_of_a_right_digest_is_an_error_or_runs(
    fuzz: Callable[..., str], running: list[Path], tmp_path: Path
) -> None:
    """The target checks no digest: its programs are like those whose digest was written after the damage."""
    runs = RUNS * SHARE_OF_RUNS // 100
    assert fuzz("fuzz_run", str(runs), SEED, tmp_path / "last", *running) == f"{runs} runs\n"


@pytest.mark.parametrize("name", SEALED)
def test_no_damaged_file_with_a_manifest_is_loaded(
    name: str, fuzz: Callable[..., str], sealed_programs: dict[str, list[Path]]
) -> None:
    runs = RUNS * SEALED[name] // 100
    printed = fuzz("damage_check", str(runs), SEED, *sealed_programs[name])
    assert printed.splitlines()[-1] == f"0 of {runs} were loaded"
    refusals = dict(reversed(line.split(" ", 1)) for line in printed.splitlines()[:-1])
    assert "wrong" not in refusals
    assert sum(map(int, refusals.values())) == runs
    # Each refusal names a file.
    assert all(re.match(r"/proc/self/fd/\d+: ", text) for text in refusals)
