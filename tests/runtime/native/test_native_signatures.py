"""`--verify` and the load option for keys: only files that a key signed are loaded, and exactly the bytes it signed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing

import modelbuild_runtime
from modelbuild.trust.signatures import SigningKey, sign, signature_path
from modelbuild_runtime import InputError, ProgramError
from modelbuild_runtime.__main__ import main
from tests.trust.keys import write_certificate, write_key

Run = Callable[..., subprocess.CompletedProcess[str]]
ARRAYS = [np.ones((2, 4), np.float32), np.ones((2, 3), np.float32)]


def signed(path: Path, key: Path, **more: Any) -> Path:
    signature_path(path).write_bytes(sign(path, SigningKey(key, **more)))
    return path


def outputs(path: Path, **options: Any) -> list[np.ndarray]:
    return list(modelbuild_runtime.load(path, **options).run(ARRAYS).values())


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return write_key(tmp_path / "keys", "release")


@pytest.fixture
def public(key: Path) -> Path:
    return key.with_suffix(".pub")


@pytest.fixture
def program(samples: dict[str, Any], key: Path, tmp_path: Path) -> Path:
    """Return a signed program with an XNNPACK partition."""
    return signed(Path(shutil.copy(samples["xnnpack"].path, tmp_path / "net.pte")), key)


@pytest.fixture
def bundle(samples: dict[str, Any], key: Path, tmp_path: Path) -> Path:
    """Return a signed folder like a bundle, whose program has data."""
    folder = tmp_path / "net_bundle"
    (folder / "program").mkdir(parents=True)
    source = samples["external"].path
    shutil.copy(source, folder / "program/net.pte")
    shutil.copy(next(source.parent.glob("*.ptd")), folder / "program/net.ptd")
    (folder / "lib").mkdir()
    (folder / "lib/libnet.so").write_bytes(b"a library")
    (folder / "lib/empty").touch()
    return signed(folder, key)


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    for number, array in enumerate(ARRAYS):
        np.save(tmp_path / f"{number}.npy", array)
    return [f"--input=input{number}={tmp_path}/{number}.npy" for number in (0, 1)]


@pytest.fixture
def refused(modelbuild_run: Run, inputs: list[str], public: Path) -> Callable[..., str]:
    """Return a function that expects one line and exit code 1 of each way to load a program, and returns the line."""

    def check(path: Path, code: int = 1, key: Path = public) -> str:
        lines = set()
        for arguments in (inputs, ["--describe"]):
            done = modelbuild_run(path, *arguments, f"--verify={key}")
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done
            lines.add(done.stderr.removeprefix("error: ").removesuffix("\n"))
        with pytest.raises(InputError if code == 2 else ProgramError) as caught:
            modelbuild_runtime.load(path, verify=key)
        (line,) = {*lines, str(caught.value)}
        return line

    return check


def test_a_signed_program_and_a_signed_bundle_run(
    program: Path, bundle: Path, key: Path, public: Path, modelbuild_run: Run, inputs: list[str]
) -> None:
    other = write_key(key.parent, "other").with_suffix(".pub")
    for path, file in ((program, program), (bundle, bundle / "program/net.pte")):
        done = modelbuild_run(
            f"{path}/" if path == bundle else path, *inputs, f"--verify={other}", f"--verify={public}"
        )
        assert (done.returncode, done.stderr) == (0, "")
        done = modelbuild_run(path, *inputs, f"--verify={public}", "--json")
        assert json.loads(done.stdout)["program"] == str(file)
        assert modelbuild_run(path, "--describe", f"--verify={public}").returncode == 0
        expected = outputs(path)
        for keys in (public, str(public), [other, public]):
            for found, array in zip(outputs(path, verify=keys), expected, strict=True):
                np.testing.assert_array_equal(found, array)


def test_python_runs_and_refuses_them(program: Path, public: Path, inputs: list[str], capsys: Any) -> None:
    assert main([str(program), *inputs, f"--verify={public}"]) == 0
    loaded = modelbuild_runtime.load(program, verify=public)
    assert loaded.unmet_requirements() == []
    signature_path(program).unlink()
    with pytest.raises(ProgramError, match="is not signed"):
        loaded.unmet_requirements()
    capsys.readouterr()
    assert main([str(program), *inputs, f"--verify={public}"]) == 1
    assert capsys.readouterr().err == f"error: {program}: is not signed; expected {program}.sig\n"
    with pytest.raises(InputError, match="verify is empty"):
        modelbuild_runtime.load(program, verify=[])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def edit(path: Path, change: Callable[[Any], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def envelope(**members: Any) -> Callable[[Path, Path], None]:
    return lambda program, signature: edit(signature, lambda document: document["dsseEnvelope"].update(members))


CHANGED = "{path}: was changed after it was signed"
FORMAT = "{sig}: is not a signature of OpenSSF Model Signing: "
OTHER = "{sig}: was made by another key, or changed"
BAD: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "unsigned": (lambda p, s: s.unlink(), "{path}: is not signed; expected {sig}"),
    "a changed byte": (lambda p, s: flip(p), CHANGED),
    "one byte more": (lambda p, s: p.write_bytes(p.read_bytes() + b"\0"), CHANGED),
    "no bytes": (lambda p, s: os.truncate(p, 0), CHANGED),
    "no program": (lambda p, s: p.unlink(), "{path}: No such file or directory"),
    "no program and no signature": (lambda p, s: (p.unlink(), s.unlink()), "{path}: No such file or directory"),
    "an empty signature": (lambda p, s: os.truncate(s, 0), FORMAT),
    "a truncated signature": (lambda p, s: os.truncate(s, 100), FORMAT),
    "other JSON": (lambda p, s: s.write_text("[1]"), FORMAT),
    "no envelope": (lambda p, s: edit(s, lambda d: d.pop("dsseEnvelope")), FORMAT),
    "no signatures": (envelope(signatures=[]), FORMAT),
    "deep JSON": (lambda p, s: s.write_text("[" * 100_000), "{sig}: is nested too deeply"),
    "a large signature": (
        lambda p, s: os.truncate(s, 1 << 33),
        "{sig}: has 8589934592 bytes; expected at most 8388608",
    ),
    "a folder": (lambda p, s: (s.unlink(), s.mkdir()), "{sig}: Is a directory"),
    "a pipe": (lambda p, s: (s.unlink(), os.mkfifo(s)), "{sig}: No such device"),
    "another media type": (lambda p, s: edit(s, lambda d: d.update(mediaType="x")), "{sig}: its mediaType is 'x'; "),
    "another payload type": (envelope(payloadType="x"), "{sig}: its payloadType is 'x'; "),
    "another payload": (envelope(payload="e30="), OTHER),
    "another signature": (envelope(signatures=[{"sig": "MAYCAQECAQE="}]), OTHER),
    "no base64": (envelope(payload="e3=0"), "{sig}: its payload is not base64"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_program_that_the_key_did_not_sign_is_refused(case: str, program: Path, refused: Callable[..., str]) -> None:
    spoil, message = BAD[case]
    spoil(program, signature_path(program))
    assert refused(program).startswith(message.format(path=program, sig=signature_path(program)))


def test_other_keys_certificates_and_statements_are_refused(
    program: Path, bundle: Path, key: Path, refused: Callable[..., str]
) -> None:
    place = signature_path(program)
    other = write_key(key.parent, "other")
    assert refused(program, key=other.with_suffix(".pub")) == OTHER.format(sig=place)
    signed(program, key, certificate=write_certificate(key, key))
    assert refused(program).startswith(
        f"{place}: was made with a certificate; this runtime verifies signatures of keys"
    )
    shutil.copy(signature_path(bundle), place)
    assert refused(program) == f"{place}: is the signature of a folder; expected that of a file"
    signer = signing.Config().use_elliptic_key_signer(private_key=key)
    for config, problem in (
        (hashing.Config().use_file_serialization(hashing_algorithm="blake3"), "its algorithm is 'blake3'"),
        (hashing.Config().use_shard_serialization(), "its method is 'shards'"),
    ):
        signer.set_hashing_config(config).sign(program, place)
        assert refused(program).startswith(f"{place}: {problem}; expected")


def test_signatures_of_the_formats_own_package_are_accepted(program: Path, bundle: Path, key: Path) -> None:
    for path in (program, bundle):
        signing.Config().use_elliptic_key_signer(private_key=key).sign(path, signature_path(path))
        assert len(outputs(path, verify=key.with_suffix(".pub"))) == 2


BAD_BUNDLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed program": (lambda b: flip(b / "program/net.pte"), "program/net.pte differs"),
    "changed data": (lambda b: flip(b / "program/net.ptd"), "program/net.ptd differs"),
    "a changed library": (lambda b: flip(b / "lib/libnet.so"), "lib/libnet.so differs"),
    "a missing library": (lambda b: (b / "lib/libnet.so").unlink(), "lib/libnet.so is missing"),
    "a missing program": (lambda b: (b / "program/net.pte").unlink(), "program/net.pte is missing"),
    "an added library": (lambda b: (b / "lib/libmore.so").write_text(""), "lib/libmore.so was added"),
    "an added signature": (lambda b: (b / "program/net.pte.sig").write_text(""), "program/net.pte.sig was added"),
    "a file of git": (lambda b: (b / ".gitignore").write_text(""), ".gitignore was added"),
    "a link": (lambda b: (b / "lib/a").symlink_to("libnet.so"), "lib/a is not a regular file"),
    "a link to a folder": (lambda b: (b / "more").symlink_to("/"), "more is not a regular file"),
    "a link in place of a file": (
        lambda b: ((b / "lib/empty").unlink(), (b / "lib/empty").symlink_to("/dev/null")),
        "lib/empty is not a regular file",
    ),
    "a pipe": (lambda b: os.mkfifo(b / "lib/a"), "lib/a is not a regular file"),
    "a renamed file": (lambda b: (b / "lib/libnet.so").rename(b / "lib/libold.so"), "lib/libold.so was added"),
}


@pytest.mark.parametrize("case", BAD_BUNDLES)
def test_a_bundle_with_other_files_is_refused(case: str, bundle: Path, refused: Callable[..., str]) -> None:
    spoil, problem = BAD_BUNDLES[case]
    spoil(bundle)
    assert refused(bundle) == f"{bundle}: was changed after it was signed: {problem}"


def test_a_bundle_without_its_signature_or_program_is_refused(
    bundle: Path, key: Path, refused: Callable[..., str]
) -> None:
    (bundle / "program/more.pte").write_bytes(b"")
    signed(bundle, key)
    assert refused(bundle) == f"{bundle}/program: has 2 programs; expected one of: {bundle}/more, {bundle}/net"
    signature_path(bundle).unlink()
    assert refused(bundle) == f"{bundle}: is not signed; expected {bundle}.sig"
    alone = bundle / "program/net.pte"  # the bundle's signature is not that of a file in it
    assert refused(alone) == f"{alone}: is not signed; expected {alone}.sig"


def test_each_file_beside_a_program_needs_a_signature(
    bundle: Path, key: Path, public: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    program, data = (Path(shutil.copy(bundle / f"program/net.{suffix}", tmp_path)) for suffix in ("pte", "ptd"))
    signature = tmp_path / "net.signature.json"
    shapes = [(name, list(array.shape)) for name, array in zip("xy", ARRAYS, strict=True)]
    named = [{"name": name, "dtype": "float32", "shape": shape} for name, shape in (*shapes, ("a", [2, 3]), ("b", [2]))]
    ports = {"inputs": named[:2], "outputs": named[2:]}
    signature.write_text(json.dumps({"version": 2, "methods": {"forward": ports}}))
    signed(program, key)
    for file in (signature, data):
        assert refused(program) == f"{file}: is not signed; expected {file}.sig"
        signed(file, key)
    assert set(modelbuild_runtime.load(program, verify=public).run(ARRAYS)) == {"a", "b"}
    flip(data)
    assert refused(program) == f"{data}: was changed after it was signed"


def test_a_loaded_program_has_the_bytes_that_were_verified(program: Path, bundle: Path, public: Path) -> None:
    """ExecuTorch reads a program in the first run; the files are overwritten in place before it."""
    for path in (program, bundle):
        expected = outputs(path)
        loaded = modelbuild_runtime.load(path, verify=public)
        for file in [path] if path.is_file() else (path / "program").iterdir():
            with file.open("r+b") as opened:
                opened.write(bytes(file.stat().st_size))
        for found, array in zip(loaded.run(ARRAYS).values(), expected, strict=True):
            np.testing.assert_array_equal(found, array)


def test_no_delegate_gets_a_byte_of_a_changed_program(
    trt_programs: dict[str, Path], fake_gpus: Any, key: Path, public: Path, x: Path, tmp_path: Path
) -> None:
    program = signed(Path(shutil.copy(trt_programs["host"], tmp_path / "gpu.pte")), key)
    command = ("modelbuild-run", program, f"--input=input0={x}", f"--verify={public}")
    assert fake_gpus(*command).returncode == 0
    assert fake_gpus.trace.read_text()
    flip(program)
    for arguments in (command, ("modelbuild-run", program, "--describe", f"--verify={public}")):
        assert fake_gpus(*arguments).returncode == 1
        assert fake_gpus.trace.read_text() == ""


def test_keys_that_cannot_verify_are_one_line_and_exit_code_2(
    program: Path, key: Path, refused: Callable[..., str]
) -> None:
    folder = key.parent
    (folder / "text.pub").write_text("no key")
    expected = "expected a public key on the curve P-256 in PEM"
    for given, problem in (
        (folder / "none.pub", "No such file or directory"),
        (folder / "text.pub", expected),
        (write_key(folder, "other", curve=ec.SECP384R1()).with_suffix(".pub"), expected),
        (key, expected),
        (write_certificate(key, key), f"is a certificate, which this runtime cannot verify with; {expected}"),
    ):
        assert refused(program, code=2, key=given) == f"{given}: {problem}"


def test_a_key_in_compressed_form_verifies(program: Path, key: Path) -> None:
    short = key.with_name("short.pub")
    command = ["openssl", "ec", "-in", key, "-pubout", "-conv_form", "compressed", "-out", short]
    subprocess.run(command, capture_output=True, check=True)
    assert short.stat().st_size < key.with_suffix(".pub").stat().st_size
    assert len(outputs(program, verify=short)) == 2


def test_a_key_verifies_its_own_signatures_and_no_others(program: Path, key: Path) -> None:
    """With 30 keys, whose signatures have numbers of several lengths."""
    for number in range(30):
        private = write_key(key.parent, f"k{number}")
        signed(program, private)
        modelbuild_runtime.load(program, verify=private.with_suffix(".pub"))
        with pytest.raises(ProgramError, match="was made by another key, or changed"):
            modelbuild_runtime.load(program, verify=key.with_suffix(".pub"))
