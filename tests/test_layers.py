"""The rooms of docs/explanation/design.md: which module may import which."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

ROWS = re.compile(r"^\| `modelbuild/(?:(\w+)/|\*\.py)` \|", re.M)
FOR_RULES = tuple(f"modelbuild.{name}" for name in ("api", "errors", "redaction", "registry", "step", "transfer"))
STARTS = "modelbuild.__main__"  # `python -m modelbuild`
RULE_ROWS = re.compile(r"^\| `([\w*/]+?)(?:/|\.py)` \|", re.M)


@pytest.fixture(scope="module")
def rooms(repository: Path) -> list[str]:
    """Return the rooms in the order of the table, the highest first; '' for the nouns at the root."""
    return ROWS.findall((repository / "docs/explanation/design.md").read_text())


def modules(top: Path) -> dict[str, Path]:
    """Modules of the package in a folder, by import name."""
    found = {}
    for path in top.rglob("*.py"):
        parts = path.relative_to(top.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(module: str, path: Path, known: set[str]) -> Iterator[str]:
    """Return the modules that a module imports anywhere in its source, including imports for types only."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports by a relative name"
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in known else str(node.module)


def engine(repository: Path) -> list[tuple[str, str]]:
    """Yield each import of one of the engine's modules by another."""
    found = modules(repository / "modelbuild")
    return [
        (module, name)
        for module, path in found.items()
        for name in imports(module, path, found.keys())
        if name.partition(".")[0] == "modelbuild" and name != module
    ]


def room_of(module: str, rooms: list[str]) -> str:
    return next((room for room in rooms if room and f"{module}.".startswith(f"modelbuild.{room}.")), "")


def test_the_table_has_every_room(repository: Path, rooms: list[str]) -> None:
    folders = {path.parent.name for path in (repository / "modelbuild").glob("*/__init__.py")}
    assert sorted(rooms) == sorted({*folders, ""})


def test_a_room_imports_only_rooms_below_it(repository: Path, rooms: list[str]) -> None:
    height = {room: place for place, room in enumerate(rooms)}
    up = [
        f"{module} imports {name}"
        for module, name in engine(repository)
        if height[room_of(name, rooms)] < height[room_of(module, rooms)] and module != STARTS
    ]
    assert up == []


def test_modules_import_each_other_in_no_circle(repository: Path) -> None:
    graph = networkx.DiGraph(engine(repository))
    assert [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1] == []


def test_rules_import_only_what_is_there_for_rules(repository: Path) -> None:
    found = modules(repository / "rules/modelbuild_rules")
    wrong = [
        f"{module} imports {name}"
        for module, path in found.items()
        for name in imports(module, path, found.keys() | set(FOR_RULES))
        if name.partition(".")[0] == "modelbuild" and not name.startswith(FOR_RULES)
    ]
    assert wrong == []


def rule_graph(repository: Path) -> list[tuple[str, str]]:
    """Return each import of one of the rules' modules by another."""
    found = modules(repository / "rules/modelbuild_rules")
    return [
        (module, name)
        for module, path in found.items()
        for name in imports(module, path, found.keys())
        if name.partition(".")[0] == "modelbuild_rules" and name != module
    ]


def rule_room(module: str, rooms: list[str]) -> str:
    """Return a module's row of the table of the rules' rooms."""
    _, *parts = module.split(".")
    if parts[-1:] == ["documents"]:
        return "*/documents"
    if "steps" in parts:
        return "backends/*/steps" if parts[0] == "backends" else f"{parts[0]}/steps"
    return parts[0] if parts and parts[0] in rooms else "*"


@pytest.fixture(scope="module")
def rule_rooms(repository: Path) -> list[str]:
    """Return the rooms of the rules in the order of the table, the highest first."""
    text = (repository / "docs/explanation/design.md").read_text()
    return RULE_ROWS.findall(text.partition("## Rooms of the rules")[2].partition("\n## ")[0])


def test_the_table_has_every_room_of_the_rules(repository: Path, rule_rooms: list[str]) -> None:
    found = modules(repository / "rules/modelbuild_rules")
    full = {rule_room(name, rule_rooms) for name, path in found.items() if path.name != "__init__.py"}
    assert sorted(rule_rooms) == sorted(full)


def test_a_room_of_the_rules_imports_only_rooms_below_it(repository: Path, rule_rooms: list[str]) -> None:
    height = {room: place for place, room in enumerate(rule_rooms)}
    up = [
        f"{module} imports {name}"
        for module, name in rule_graph(repository)
        if height[rule_room(name, rule_rooms)] < height[rule_room(module, rule_rooms)]
    ]
    assert up == []


def test_no_rule_imports_a_step(repository: Path) -> None:
    assert [
        f"{module} imports {name}"
        for module, name in rule_graph(repository)
        if ".steps." in f"{name}." and ".steps." not in f"{module}."
    ] == []


# The rule tensorrt_engine, and the steps of the programs in which it is a part.
RULES_OF_BACKENDS = (
    "modelbuild_rules.backends.tensorrt.tensorrt_engine",
    "modelbuild_rules.backends.tensorrt.steps.prebuilt",
)


def test_a_backend_imports_of_the_rules_only_backend_api(repository: Path) -> None:
    backend = re.compile(r"modelbuild_rules\.backends\.\w+")
    wrong = []
    for module, name in rule_graph(repository):
        own = backend.match(module)
        if (
            own
            and not module.startswith(RULES_OF_BACKENDS)
            and not name.startswith((own[0], "modelbuild_rules.backend_api"))
        ):
            wrong.append(f"{module} imports {name}")
    assert wrong == []


def imported_first(module: str, path: Path, known: set[str]) -> Iterator[str]:
    """Return the modules that are imported with a module: in the statements at its top, and its package."""
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            below = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else str(node.module) for name in below)
    yield from [module.rpartition(".")[0]] if "." in module else []


def test_steps_import_no_package_that_only_the_engine_requires(repository: Path) -> None:
    """A toolchain lacks pydantic, which modelbuild.api imports. The step of the starter runs in modelbuild's Python."""
    found = {**modules(repository / "modelbuild"), **modules(repository / "rules/modelbuild_rules")}
    graph = networkx.DiGraph(
        (module, name) for module, path in found.items() for name in imported_first(module, path, found.keys())
    )
    steps = [module for module in found if module.startswith("modelbuild_rules.") and ".steps." in module]
    assert len(steps) > 100
    steps.remove("modelbuild_rules.starter.steps.read_checkpoint")
    ways = networkx.single_target_shortest_path(graph, "pydantic")
    assert [" -> ".join(ways[step]) for step in steps if step in ways] == []


@pytest.mark.parametrize("package", ["rules/modelbuild_rules", "runtime/python/modelbuild_runtime"])
def test_no_circle_beside_the_engine(repository: Path, package: str) -> None:
    found = modules(repository / package)
    graph = networkx.DiGraph(
        (module, name) for module, path in found.items() for name in imports(module, path, found.keys())
    )
    assert [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1] == []


def test_the_runtime_imports_nothing_of_the_engine(repository: Path) -> None:
    found = modules(repository / "runtime/python/modelbuild_runtime")
    names = {name.partition(".")[0] for module, path in found.items() for name in imports(module, path, found.keys())}
    assert names.isdisjoint({"modelbuild", "modelbuild_rules"})
