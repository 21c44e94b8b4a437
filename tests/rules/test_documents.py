"""The types of documents are for type checkers: no step's key contains them."""

from __future__ import annotations

from pathlib import Path

import modelbuild
from modelbuild.code.step_sources import StepCode


def test_types_of_documents_are_in_no_steps_key(repository: Path) -> None:
    rules = repository / "rules/modelbuild_rules"
    code = StepCode({"modelbuild": Path(modelbuild.__file__).parent, "modelbuild_rules": rules})
    names = {path: ".".join(path.relative_to(rules.parent).with_suffix("").parts) for path in rules.rglob("*.py")}
    documents = {name for path, name in names.items() if path.name == "documents.py"}
    steps = [name for path, name in names.items() if "steps" in path.parts and path.name != "__init__.py"]
    closure = {name for name, _ in code.closure(*steps)}
    assert len(documents) >= 4
    assert set(steps) <= closure
    assert closure.isdisjoint({*documents, "modelbuild.execution.orders"})
