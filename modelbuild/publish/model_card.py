"""The model card of a hub, README.md: metadata as YAML, and the files of the target.

Equal content has equal cards: they contain no time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from modelbuild.markdown import markdown, markdown_code
from modelbuild.publish.content import Content

CARD = "README.md"
# A card without this line was not written by modelbuild, and is not replaced.
MARK = "<!-- Written by modelbuild publish. Without this line, it stays as it is. -->"
# Licences that hubs list: SPDX identifiers in lower case.
_LISTED = re.compile(
    r"(apache|mpl|artistic)-2\.0|mit|isc|zlib|unlicense|bsd-[23]-clause|bsd-3-clause-clear|cc0-1\.0|cc-by(-nc)?(-sa|-nd)?-4\.0"
)


def model_card(content: Content) -> bytes:
    """Return the card of a content."""
    from huggingface_hub import ModelCardData

    about = content.about
    library = "executorch" if any(file.path.endswith(".pte") for file in content.files) else "modelbuild"
    data = ModelCardData(library_name=library, tags=sorted({library, "modelbuild"}), **_license(about.licenses))
    lines = [
        f"# {markdown(f'{about.name} {about.version}'.rstrip())}",
        "",
        MARK,
        "",
        f"Built by modelbuild from {markdown_code(about.target)}.",
        "",
    ]
    lines += ["| file | bytes | SHA-256 |", "| --- | --- | --- |"]
    lines += [f"| {markdown_code(file.path)} | {file.size} | `{file.sha256}` |" for file in content.files]
    for title, ports in (("Inputs", about.inputs), ("Outputs", about.outputs)):
        if ports:
            lines += ["", f"## {title}", "", *(f"- {markdown_code(port)}" for port in ports)]
    return f"---\n{data.to_yaml()}\n---\n\n{chr(10).join(lines)}\n".encode()


def _license(licenses: Sequence[str]) -> dict[str, str]:
    """Return the metadata of licences: a name in lower case, or `other` with the licence's name."""
    text = " AND ".join(sorted({*licenses} - {""}))
    name = re.sub(r"^((?:a|l)?gpl-[23]\.[01])-(only|or-later)$", r"\1", text.lower())
    if name != text.lower() or _LISTED.fullmatch(name):
        return {"license": name}
    return {"license": "other", "license_name": text} if text else {}
