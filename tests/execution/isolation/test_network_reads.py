"""An action with a network reads the files that other actions may read, and those needed to fetch."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

READS = """
import json, subprocess
def run(step):
    native = subprocess.run(["cat", step.params["file"]], capture_output=True, text=True).stdout
    try:
        python = open(step.params["file"]).read() if step.params["python"] else ""
    except OSError:
        python = ""
    step.outputs["out"].write_text(json.dumps([native, python]))
"""


def reads(file: Path | str, python: bool = True) -> str:
    return READS.replace('step.params["file"]', repr(str(file))).replace('step.params["python"]', repr(python))


def test_a_file_of_the_workspace_is_refused_unless_it_is_declared(workspace: Any) -> None:
    workspace.write({"secret.txt": "s"})
    secret = workspace.root / "secret.txt"
    workspace.step("by_path", reads(secret))
    workspace.step("by_name", reads("secret.txt"))
    workspace.step("native", reads(secret, python=False))
    for name in ("by_path", "by_name", "native"):
        workspace.target(name, name, network=True)
    workspace.step("by_address", reads(secret))
    workspace.target("by_address", "by_address", network=True, unkeyed={"url": f"file://{secret}"})
    workspace.target("declared", "by_name", network=True, srcs=["secret.txt"])
    done = workspace.build_all()
    for name in ("by_path", "by_name", "by_address"):
        assert f"step probe.steps.{name} reads secret.txt, which is not a declared input" in done.err
    assert workspace.value("native") == ["", ""]
    assert workspace.value("declared") == ["s", "s"]


def test_a_file_outside_the_workspace_is_refused(workspace: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("d")
    workspace.step("python", reads(tmp_path / "data"))
    workspace.step("native", reads(tmp_path / "data", python=False))
    for name in ("python", "native"):
        workspace.target(name, name, network=True)
    done = workspace.build_all()
    assert f"step probe.steps.python reads {tmp_path}/data, which is outside the workspace" in done.err
    assert workspace.value("native") == ["", ""]


def test_places_to_fetch_from_are_readable(workspace: Any, tmp_path: Path) -> None:
    home = tmp_path / "home"
    names = ("mirror", "bundle.pem", "wheels/a.whl", "web/files/b.whl", "home/.netrc", "home/.config/pip/pip.conf")
    files = {name: tmp_path / name for name in names}
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (tmp_path / "web/simple").mkdir()
    config = f"[global]\nfind-links = {tmp_path}/wheels\nextra-index-url =\n  file://{tmp_path}/web/simple\n"
    files["home/.config/pip/pip.conf"].write_text(config)
    for number, file in enumerate(files.values()):
        workspace.step(f"reads{number}", reads(file))
        workspace.target(f"reads{number}", f"reads{number}", network=True, unkeyed={"url": f"file://{tmp_path}/mirror"})
    done = workspace.build_all(HOME=str(home), XDG_CONFIG_HOME="", SSL_CERT_FILE=str(files["bundle.pem"]))
    assert done.code == 0, done.err
    for number, file in enumerate(files.values()):
        assert workspace.value(f"reads{number}") == [file.read_text()] * 2


def test_the_resolver_and_certificates_are_read(workspace: Any) -> None:
    files = [file for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf") if os.path.exists(file)]
    source = f"""
        import json, ssl, subprocess
        def run(step):
            for file in {files!r}:
                subprocess.run(["cat", file], check=True, stdout=subprocess.DEVNULL)
            step.outputs["out"].write_text(json.dumps(len(ssl.create_default_context().get_ca_certs())))
    """
    import ssl

    assert workspace.probe(source, network=True) == len(ssl.create_default_context().get_ca_certs())


def test_http_file_takes_a_file_address(workspace: Any, tmp_path: Path) -> None:
    (tmp_path / "mirror").write_bytes(b"m")
    text = f'[[http_file]]\nname = "file"\nurls = ["file://{tmp_path}/mirror"]\n'
    workspace.write({"BUILD.toml": f'{text}sha256 = "{hashlib.sha256(b"m").hexdigest()}"\n'})
    done = workspace.build_all()
    assert done.code == 0, done.err


def pypi_file(workspace: Any, package: str, version: str, path: str, sha256: str) -> None:
    lines = [f'{k} = "{v}"' for k, v in locals().items() if k != "workspace"]
    workspace.write({"BUILD.toml": "\n".join(["[[pypi_file]]", 'name = "file"', *lines, ""])})


@pytest.mark.parametrize("where", ["folder", "index", "page"])
def test_pypi_file_takes_a_wheel_from_where_pip_is_configured_to(workspace: Any, tmp_path: Path, where: str) -> None:
    files = tmp_path / "mirror/files"
    files.mkdir(parents=True)
    with zipfile.ZipFile(files / "nets-1.2.0-py3-none-any.whl", "w") as archive:
        archive.writestr("nets/weights", b"w")
        archive.writestr("nets-1.2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: nets\nVersion: 1.2.0\n")
        archive.writestr("nets-1.2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("nets-1.2.0.dist-info/RECORD", "")
    page = tmp_path / "mirror/simple/nets/index.html"
    page.parent.mkdir(parents=True)
    link = '<!DOCTYPE html><html><body><a href="{}nets-1.2.0-py3-none-any.whl">nets</a></body></html>'
    page.write_text(link.format("../../files/"))
    (tmp_path / "mirror/links.html").write_text(link.format("files/"))
    option = {
        "folder": f"no-index = true\nfind-links = {files}",
        "index": f"index-url = file://{tmp_path}/mirror/simple/",
        "page": f"no-index = true\nfind-links = {tmp_path}/mirror/links.html",
    }
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\n{option[where]}\n")
    pypi_file(workspace, "nets", "1.2.0", "nets/weights", hashlib.sha256(b"w").hexdigest())
    own = {name: "" for name in os.environ if name.startswith("PIP_")} | {"HOME": str(tmp_path)}
    done = workspace.build_all(PIP_CONFIG_FILE=str(config), **own)
    assert done.code == 0, done.err


def test_pypi_file_from_the_index_that_the_machine_is_set_up_for(workspace: Any) -> None:
    digest = "f0f8f2675695a10a5156fb7bd66bafbaae6a13e8d315990af862c792175e6e67"
    pypi_file(workspace, "mdurl", "0.1.2", "mdurl/py.typed", digest)
    done = workspace.build_all()
    assert done.code == 0, done.err
