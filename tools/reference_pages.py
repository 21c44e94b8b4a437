"""Write the generated pages of docs/reference.

rules.md is made from the schemas of rules, rules-api.md and backend-api.md from docstrings, and the flags in cli.md and
cli/ from click.

python tools/reference_pages.py           write the pages
python tools/reference_pages.py --check   exit with 1 if a page differs
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, is_typeddict

import modelbuild.api
import modelbuild.rule_runner
import modelbuild.step
import modelbuild_rules
from modelbuild.analysis.rule_help import Attribute, AttributeTable, describe_rule
from modelbuild.analysis.rules import load_rules
from modelbuild.api import Provider, Rule
from modelbuild_rules import providers

sys.path.insert(0, str(Path(__file__).parent))
from command_reference import with_help

REFERENCE = Path(__file__).parents[1] / "docs/reference"
GENERATED = "<!-- Written by tools/reference_pages.py. -->"
NEW_PARAGRAPH = "\n\n"
FIELD = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*(?:\n {3,}\S.*)*)$", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return the text of each page that is generated, or has generated parts, by its path below docs/reference."""
    rules = load_rules(Path("/"), ()).by_name
    commands = {"cli.md": with_help((REFERENCE / "cli.md").read_text(), "")}
    for page in sorted(REFERENCE.glob("cli/*.md")):
        commands[f"cli/{page.name}"] = with_help(page.read_text(), "../")
    return {"rules.md": rules_page(rules), "rules-api.md": api_page(), "backend-api.md": backend_page(), **commands}


# Rules.


def rules_page(rules: Mapping[str, Rule]) -> str:
    described = {name: describe_rule(rule) for name, rule in sorted(rules.items())}
    tables = {table.name: table for each in described.values() for table in each.tables}
    kinds = {kind: [each for each in tables.values() if kind in _about_type(each)] for kind in ("Backend", "Quantizer")}
    words = {frozenset(table.name for table in members): f"table {kind}" for kind, members in kinds.items() if members}
    lines = [
        "# Rules",
        GENERATED,
        "Every built-in rule with its attributes; `modelbuild help RULE` also prints an example.",
        "An attribute without a type is a string. An attribute without a default is optional unless it is `required`;"
        "\nan absent list or string is empty, an absent boolean false. *Files* are a list of files, or a table"
        "\n[Glob](#glob); *strings* are a list. A *file* is a path in the package, or the label of a target with one"
        "\nfile. A rule's name stands for the label of its target.",
        ", ".join(f"[{name}](#{name})" for name in described),
        "## Attributes of every target",
        _attributes(next(iter(described.values())).every, {}, "", {}),
    ]
    known: dict[Attribute, str] = {}
    for name, each in described.items():
        lines += [f"## {name}", each.attributes.about]
        lines += [f"[Example]({EXAMPLES[name]})" if name in EXAMPLES else f"```toml\n{each.example.strip()}\n```"]
        lines += [_attributes(each.attributes.attributes, known, name, words)]
    lines += ["## Tables inside attributes"]
    for kind, members in sorted(kinds.items()) if words else ():
        links = ", ".join(f"[{table.name}](#{table.name.lower()})" for table in members)
        lines += [f"### {kind}", f"A name, such as `{members[0].attributes[0].type}`, or a table: {links}."]
    for table in sorted(tables.values(), key=lambda table: table.name):
        lines += [f"### {table.name}", table.about, _attributes(table.attributes, known, table.name, words)]
    return _joined(lines)


FIRST_MODEL = "../tutorial/first-model.md#the-workspace"
QUANTIZE = "../how-to/quantize.md#8-bits-with-ranges-from-data"
DEVICE = "../how-to/test-on-a-device.md#reach-the-device"
EXAMPLES = {
    "backend_stack": FIRST_MODEL,
    "dataset": QUANTIZE,
    "device_runner": DEVICE,
    "device_target": DEVICE,
    "filegroup": "build-files.md#buildtoml",
    "http_file": "../how-to/publish.md#use-what-is-published",
    "kernel_library": "../how-to/custom-kernels.md#an-operator-of-your-own",
    "pte_program": FIRST_MODEL,
    "pte_test": "tests.md#pte_test",
    "pypi_file": "bundles.md#tensorrts-library-in-a-bundle",
    "python_toolchain": "../how-to/toolchains.md#declare-one",
    "quantization_recipe": "../how-to/custom-quantizer.md",
    "quantized_model": QUANTIZE,
    "release": "../how-to/publish.md",
    "runtime_bundle": "bundles.md#several-programs-in-a-bundle",
    "tensorrt_engine": "tensorrt.md#engines-from-elsewhere",
    "torch_model": "build-files.md#torch_model",
}
"""Places with an example of a rule; the page has an example of other rules."""


def _about_type(table: AttributeTable) -> str:
    """Return the description of a table's attribute `type`, in title case; '' if it has no such attribute."""
    return "".join(row.about.title() for row in table.attributes if row.name == "type")


def _attributes(
    rows: tuple[Attribute, ...], known: dict[Attribute, str], owner: str, words: Mapping[frozenset[str], str]
) -> str:
    """Return a list of attributes. Attributes of `known`, by the earlier owners of equal attributes, are named only.
    `words` are the words for one of several tables."""
    lines: list[str] = []
    for row in rows:
        if row not in known:
            known[row] = owner
            about = "" if row.name == "type" else f": {_escaped(row.about.replace(NEW_PARAGRAPH, ' '))}"
            kind = _type(row, words)
            lines.append(f"- `{row.name}`{f' ({kind})' if kind else ''}{about}")
    repeated: dict[str, list[str]] = {}
    for row in rows:
        if known[row] != owner:
            repeated.setdefault(known[row], []).append(f"`{row.name}`")
    lines += [f"- {', '.join(names)}: as for [{other}](#{other.lower()})" for other, names in repeated.items()]
    return "\n".join(lines)


def _type(row: Attribute, words: Mapping[frozenset[str], str]) -> str:
    """Return an attribute's type, with links to tables, and its default; '' for a string without a default."""

    def word(union: re.Match[str]) -> str:
        return words.get(frozenset(re.findall(r"table (\w+)", union[0])), union[0])

    text = re.sub(r'(?:"\w+"(?:, | or ))*table \w+(?:, table \w+)*(?: or table \w+)+', word, row.type)
    text = re.sub(r"\((table \w+)\)", r"\1", text)
    text = text.replace("(list of file or table Glob)", "files").replace("list of file or table Glob", "files")
    text = re.sub(
        r" \(at least ([\d.]+), at most ([\d.]+)\)", r" from \1 to \2", text.replace("list of string", "strings")
    )
    text = re.sub(r" \(at least ([\d.]+)\)", r" from \1", text)
    text = re.sub(r"^(.*) or table of \(?\1\)? by name$", r"\1, or a table of these by name", text)
    text = re.sub(r"^(.*), (.*) or table of \(\1 or \2\) by name$", r"\1 or \2, or a table of these by name", text)
    text = re.sub(r"\blabel of an? ((?:\w+, )*\w+(?: or \w+)?)", _linked_rules, text)
    text = _escaped(re.sub(r"\btable ([A-Z]\w*)", lambda found: f"[{found[1]}](#{found[1].lower()})", text))
    facts = [] if text == "string" else [text]
    if row.required:
        facts.append("required")
    elif row.default not in ("", "[]", '""', "false"):
        facts.append(f"default `{row.default}`")
    return ", ".join(facts)


def _linked_rules(found: re.Match[str]) -> str:
    return re.sub(r"\b(?!(?:or|list|table)\b)(\w+)", r"[\1](#\1)", found[1])


# The rules API.


def api_page() -> str:
    lines = [
        "# The rules API",
        GENERATED,
        "The names that a rule package may import from `modelbuild.api`, the interface of a step, and the providers of"
        "\nthe built-in rules. [Writing a rule](../how-to/custom-rule.md) shows their use. Any module of a rule package"
        "\noutside of folders called `steps` may define rules, extensions, commands, probes and runtimes; `package` of"
        "\nthese is the package's import name.",
        "## modelbuild.api",
    ]
    for name in modelbuild.api.__all__:
        lines += _member(name, getattr(modelbuild.api, name))
    lines += ["## modelbuild.step", "A step imports only this module of modelbuild."]
    for name in ("Step", "StepError"):
        lines += _member(name, getattr(modelbuild.step, name))
    lines += ["## modelbuild.rule_runner", "Tests of rules import it."]
    for name in modelbuild.rule_runner.__all__:
        lines += _member(name, getattr(modelbuild.rule_runner, name))
    lines += [
        "## Providers of the built-in rules",
        "`modelbuild_rules.providers`; `ctx.provider(dep, Kind)` returns the one of a dependency.",
    ]
    for name, kind in vars(providers).items():
        if inspect.isclass(kind) and issubclass(kind, Provider) and kind.__module__ == providers.__name__:
            lines += _member(name, kind)
    return _joined(lines)


def backend_page() -> str:
    lines = [
        "# The backend API",
        GENERATED,
        "The names of `modelbuild_rules.backend_api` for backends and quantizers of a workspace."
        "\n[A backend of your own](../how-to/custom-backend.md) and"
        "\n[a quantizer of your own](../how-to/custom-quantizer.md) show their use. Modules of `steps` are for code in"
        "\nactions; declarations import none of them.",
    ]
    for name, members in sorted(backend_api().items(), key=lambda item: (".steps." in item[0], item[0])):
        module = importlib.import_module(name)
        lines += [f"## {name.removeprefix('modelbuild_rules.')}", str(module.__doc__).partition("\n\n")[0]]
        for member in sorted(members):
            value = inspect.unwrap(getattr(module, member)) if callable(getattr(module, member)) else None
            if inspect.isclass(value) or inspect.isfunction(value):
                lines += _member(member, value)
            else:
                lines += [f"### {member}", ABOUT_VALUES[member]]
    return _joined(lines).replace("](#extension)", "](rules-api.md#extension)")


# Modules of backend_api.steps that modelbuild's own backends share: kernels, libraries and rewrites of theirs.
SHARED = ("aten", "composite_operators", "cpp_compiler", "division", "elf", "half_precision", "kept_results")
SHARED += ("partition_files", "resizing", "sampling", "shapes")


def backend_api() -> dict[str, set[str]]:
    """Return the names that backends and quantizers import from each module of backend_api, except modules that only
    modelbuild's own backends need."""
    found: dict[str, set[str]] = {}
    rules = Path(modelbuild_rules.__file__).parent
    for file in (*rules.glob("backends/**/*.py"), rules / "quantization/steps/half.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if not isinstance(node, ast.ImportFrom) or str(node.module).rpartition(".")[2] in SHARED:
                continue
            if str(node.module).startswith("modelbuild_rules.backend_api."):
                found.setdefault(str(node.module), set()).update(alias.name for alias in node.names)
    return found


def _member(name: str, value: Any) -> Iterator[str]:
    """Yield the heading, signature, docstring, fields and methods of a class, function or type."""
    yield f"### {name}"
    if inspect.isfunction(value):
        yield from _described(_signature(name, value), value)
        return
    if not inspect.isclass(value):
        yield ABOUT_TYPES[name]
        return
    made_by = getattr(value, "made_by", ())
    if made_by:
        yield f"Provided by {', '.join(f'[`{rule}`](rules.md#{rule})' for rule in made_by)}."
    yield from _docstring(inspect.getdoc(value) if value.__doc__ and "__doc__" in vars(value) else None)
    yield from _fields(value)
    for base in value.__bases__:
        fields = dataclasses.fields(base) if dataclasses.is_dataclass(base) else ()
        if base.__name__ in modelbuild.api.__all__ and (fields or any(_methods(base))):
            yield f"Also has the members of [{base.__name__}](#{base.__name__.lower()})."
    for method, function in _methods(value):
        if isinstance(function, property):
            yield from _described(f"{name}.{method}", function)
        else:
            yield from _described(_signature(f"{name}.{method}", function), function)


def _described(signature: str, function: Any) -> Iterator[str]:
    """Yield a method's docstring below its signature, or after a short one."""
    first, *rest = _docstring(inspect.getdoc(function)) if function.__doc__ else ("",)
    if "\n" in signature:
        yield f"```python\n{signature}\n```"
        yield first
    else:
        yield f"`{signature}`:\n{first}" if first else f"`{signature}`"
    yield from rest


ABOUT_TYPES = {
    "Artifact": "A file or folder that an action reads or writes: a `SourceArtifact` or a `DerivedArtifact`.",
    "Duration": "A type for attributes: seconds, as a number or text such as `30 min`.",
    "Size": "A type for attributes: bytes, as a number or text such as `20GiB`.",
    "Sources": "A type for attributes: a list of `Source`, or a `Glob`.",
}


ABOUT_VALUES = {
    "ABOUT": "`about.json`: an optional file of a compiled partition, a `PartitionFacts`.",
    "Filter": "A function that returns whether a node may be quantized, by its module.",
    "OPERATOR": "The form of `operator_reference`, with the groups `index` and `op`.",
    "Operators": "A type for attributes: operators such as `aten.add.Tensor`, sorted, each once.",
    "PRELOAD": "The modules that workers import before a backend's steps: torch and executorch.",
    "PROCESSED": "`processed.bin`: the file of a delegate's blob in a compiled partition.",
    "QUANTIZED": "The reason for refusing an operator on quantized values.",
    "Recipe": "The name of a weight, or a list of an operation's name and its arguments.",
    "Values": "Attributes of a table, by name: JSON values, with defaults.",
}


def _fields(value: type) -> Iterator[str]:
    """Yield the fields of a TypedDict, and of a dataclass those that its docstring does not describe."""
    if is_typeddict(value):
        (declared,) = ast.parse(inspect.getsource(value)).body
        assert isinstance(declared, ast.ClassDef)
        described = [pair for pair in pairwise(declared.body) if isinstance(pair[0], ast.AnnAssign)]
        yield "\n".join(f"- `{ast.unparse(field)}`: {ast.literal_eval(about.value)}" for field, about in described)  # type: ignore[attr-defined]
    if not dataclasses.is_dataclass(value):
        return
    described = {name for names, _ in FIELD.findall(inspect.getdoc(value) or "") for name in names.split(", ")}
    for base in value.__bases__:
        if base.__name__ in modelbuild.api.__all__ and dataclasses.is_dataclass(base):
            described |= {field.name for field in dataclasses.fields(base)}
    rest = [field for field in dataclasses.fields(value) if field.name not in described]
    if rest:
        yield "Fields: " + ", ".join(f"`{field.name}: {field.type}`" for field in rest) + "."


def _methods(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class itself defines, with docstrings."""
    for name, member in vars(value).items():
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        listed = not name.startswith("_") and name != "package"
        if listed and (inspect.isfunction(function) or isinstance(function, property)):
            yield name, function


def _signature(name: str, function: Any) -> str:
    """Return a function's signature without `self`; with one parameter a line if it is long."""
    given = inspect.signature(function)
    shown: list[str] = []
    for each in given.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not any(one.startswith("*") for one in shown):
            shown.append("*")
        default = "" if each.default is each.empty else f" = {each.default!r}"
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        shown.append(f"{stars}{each.name}: {each.annotation}{default}")
    end = f") -> {given.return_annotation}"
    line = f"{name}({', '.join(shown)}{end}"
    return line if len(line) <= 130 else "\n".join([f"{name}(", *(f"    {each}," for each in shown), end])


def _docstring(text: str | None) -> Iterator[str]:
    """Yield a docstring as Markdown; its fields become a list."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)) if text else ():
        fields = FIELD.findall(paragraph)
        if fields and FIELD.sub("", paragraph).strip() == "":
            yield "\n".join(f"- `{name}`: {_escaped(' '.join(about.split()))}" for name, about in fields)
        else:
            yield paragraph


# Markdown.


def _table(heads: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """Return text in which `|` ends no cell, and `__` and `*` outside of code mark nothing."""
    parts = text.replace("|", "\\|").split("`")
    return "`".join(part if index % 2 else re.sub(r"__|\*", r"\\\g<0>", part) for index, part in enumerate(parts))


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def main() -> int:
    written = 0
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.is_file() or path.read_text() != text:
            written += 1
            if "--check" in sys.argv:
                print(f"{path}: differs; run python tools/reference_pages.py")
            else:
                path.write_text(text)
    return 1 if written and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
