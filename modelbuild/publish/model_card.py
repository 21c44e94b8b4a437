"""The model card of a hub, README.md: metadata as YAML, and the files of the target.

Equal content has equal cards: they contain no time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from modelbuild.publish.content import Content

CARD = "README.md"
# A card without this line is somebody's own, and stays.
MARK = "<!-- Written by modelbuild publish. Without this line, it stays as it is. -->"
# Licences that hubs list, which are SPDX's in lower case, and those with another name there.
_LISTED = re.compile(
    r"(apache|mpl|artistic)-2\.0|mit|isc|zlib|unlicense|bsd-[23]-clause|bsd-3-clause-clear|cc0-1\.0|cc-by(-nc)?(-sa|-nd)?-4\.0"
)
_RENAMED = re.compile(r"((?:a|l)?gpl-[23]\.[01])-(only|or-later)")


def model_card(content: Content) -> bytes:
    """Return the card of a content."""
    from huggingface_hub import ModelCardData

    about = content.about
    programs = [file.path for file in content.files if file.path.endswith(".pte")]
    data = ModelCardData(
        library_name="executorch" if programs else "modelbuild",
        tags=[*(["executorch"] if programs else []), "modelbuild"],
        **_license(content),
    )
    lines = [f"# {about.name}" + f" {about.version}" * bool(about.version), "", MARK, ""]
    lines += [f"Built by modelbuild from `{about.target}`.", ""]
    lines += ["| file | bytes | SHA-256 |", "| --- | --- | --- |"]
    lines += [f"| `{file.path}` | {file.size} | `{file.sha256}` |" for file in content.files]
    for title, ports in (("Inputs", about.inputs), ("Outputs", about.outputs)):
        if ports:
            lines += ["", f"## {title}", "", *(f"- `{port}`" for port in ports)]
    if programs:
        lines += ["", *_usage(programs[0])]
    if content.attachments:
        lines += ["", "## Documents", "", *(f"- `{each.name}`" for each in content.attachments)]
    return f"---\n{data.to_yaml()}\n---\n\n{chr(10).join(lines)}\n".encode()


def _usage(program: str) -> Iterator[str]:
    yield from ("## Use", "", "```python", "import modelbuild_runtime", "")
    yield f'program = modelbuild_runtime.load("{program}")'
    yield from ("print(program.describe())", "```", "", "The package is `modelbuild-runtime`.")


def _license(content: Content) -> dict[str, str]:
    """Return the metadata of a licence: hubs know names in lower case, and `other` with a name of its own."""
    found = sorted({each for each in content.about.licenses if each})
    if not found:
        return {}
    text = " AND ".join(found)
    with suppress(InvalidLicenseExpression):
        text = str(canonicalize_license_expression(text))
    name = text.lower()
    renamed = _RENAMED.fullmatch(name)
    if renamed or _LISTED.fullmatch(name):
        return {"license": renamed[1] if renamed else name}
    return {"license": "other", "license_name": text}
