"""Names that a workspace declares, for completion: targets, profiles, and inputs of programs. A file with an error has
as many of them as can be read."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE_FILE, WORKSPACE_FILE = "BUILD.toml", "MODELBUILD.toml"


def target_names(root: str, package: str) -> list[str]:
    """Return the names of targets in a BUILD file. Only a file with a matrix is parsed."""
    from modelbuild.workspace.toml_tokens import Kind, Role, read_tokens

    try:
        with open(f"{root}/{package}/{PACKAGE_FILE}", encoding="utf-8", errors="replace") as file:
            tokens = read_tokens(file.read())
    except OSError:
        return []
    strings = [token for token in tokens if token.role is Role.VALUE and token.kind is Kind.STRING]
    names = [token.value for token in strings if len(token.path) == 3 and token.path[2] == "name"]
    if any("{" in name for name in names):
        try:
            return list(_expanded(root, package))
        except Exception:  # an unfinished file
            names = [name.partition("{")[0] for name in names]
    return list(filter(None, names))


def _expanded(root: str, package: str) -> Iterator[str]:
    """Yield the names of targets, with those of each matrix."""
    from pathlib import Path

    from modelbuild.loading.matrix import expand_matrix
    from modelbuild.workspace.toml_document import read_document

    document, values, _ = read_document(Path(root), f"{package}/{PACKAGE_FILE}".lstrip("/"))
    for rule, targets in values.items():
        for index, target in enumerate(targets if isinstance(targets, list) else ()):
            naming = {key: target[key] for key in ("name", "matrix") if key in target}
            if "matrix" in naming:
                yield from (each["name"] for each in expand_matrix(document, (rule, index), naming))
            elif isinstance(target, dict) and isinstance(name := target.get("name"), str):
                yield name.partition("{")[0]


def profile_names(root: str) -> list[str]:
    """Return the names of the profiles in MODELBUILD.toml."""
    from modelbuild.workspace.toml_document import read_document

    try:
        from pathlib import Path

        return list(read_document(Path(root), WORKSPACE_FILE)[1]["profile"])
    except Exception:  # an unfinished file, or no profile
        return []


def input_names(root: str, package: str, target: str) -> list[str]:
    """Return the names of the inputs of a program's methods. `target` is relative to the package."""
    from pathlib import Path

    from modelbuild.analysis.open import open_analyzer
    from modelbuild.api.providers import Runnable
    from modelbuild.cli.targets.one_program import label_of
    from modelbuild.workspace.workspace import load_workspace

    try:
        program = open_analyzer(load_workspace(Path(root))).analyze(label_of(target, package))
    except Exception:  # an unfinished workspace
        return []
    methods = [provider.method_inputs for provider in program.providers if isinstance(provider, Runnable)]
    return list(dict.fromkeys(name for method in methods for names in method.values() for name in names or ()))
