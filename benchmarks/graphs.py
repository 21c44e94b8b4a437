"""Write the same graph for each tool: M models, each a source file and a chain of four steps that append a line.

    model/p0/m0.in -> .1 -> .2 -> .3 -> .4          50 models per folder (a package, for tools that have packages)

Tools that run commands run `{ cat IN; echo STEP; } > OUT`; modelbuild runs a Python step that does the same. Models
share only the target `all`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

STEPS = (1, 2, 3, 4)
PER_PACKAGE = 50


def models(count: int) -> Iterator[str]:
    """Yield names such as `p0/m0`."""
    for number in range(count):
        yield f"p{number // PER_PACKAGE}/m{number}"


def write_sources(root: Path, count: int) -> None:
    for model in models(count):
        path = root / f"model/{model}.in"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{model}\n")


def _shell(model: str, step: int, out: str = "out", model_folder: str = "model") -> tuple[str, str, str]:
    """Return input, output and command of one step."""
    made = f"{out}/{model}.{step}"
    read = f"{out}/{model}.{step - 1}" if step > 1 else f"{model_folder}/{model}.in"
    return read, made, f"{{ cat {read}; echo {step}; }} > {made}"


def _packages(count: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for model in models(count):
        package, _, name = model.partition("/")
        found.setdefault(package, []).append(name)
    return found


def _out_folders(root: Path, count: int) -> None:
    for package in _packages(count):
        (root / "out" / package).mkdir(parents=True, exist_ok=True)


CHAIN_RULE = '''"""chain: a file after four trivial steps."""

from __future__ import annotations

from modelbuild.api import Attrs, Context, Files, Output, Provider, Source, rule


class ChainAttrs(Attrs):
    """A file after four trivial steps."""

    src: Source
    """The file."""


@rule(attrs=ChainAttrs)
def chain(ctx: Context[ChainAttrs]) -> tuple[Provider, ...]:
    made = ctx.file(ctx.attrs.src)
    for step in (1, 2, 3, 4):
        output = Output("made", f"{ctx.label.name}.{step}")
        made = ctx.action(
            "append", step="append", name=f"append{step}", inputs={"src": made}, outputs=[output], params={"step": step}
        )["made"]
    return (Files((made,)),)
'''

APPEND_STEP = '''"""Copy a file and append a line."""

from __future__ import annotations

from modelbuild.step import Step


def run(step: Step) -> None:
    (source,) = step.inputs["src"]
    step.outputs["made"].write_text(f"{source.read_text()}{step.params['step']}\\n")
'''


def write_modelbuild(root: Path, count: int) -> None:
    write_sources(root, count)
    (root / "MODELBUILD.toml").write_text('rules = ["//tools/rules"]\n')
    rules = root / "tools/rules"
    (rules / "steps").mkdir(parents=True, exist_ok=True)
    (rules / "__init__.py").write_text('"""Rules of the benchmark."""\n')
    (rules / "chain.py").write_text(CHAIN_RULE)
    (rules / "steps/__init__.py").write_text('"""Steps."""\n')
    (rules / "steps/append.py").write_text(APPEND_STEP)
    for package, names in _packages(count).items():
        lines = [f'[[chain]]\nname = "{name}"\nsrc = "{name}.in"\n' for name in names]
        (root / f"model/{package}/BUILD.toml").write_text("\n".join(lines))


def write_ninja(root: Path, count: int) -> None:
    write_sources(root, count)
    lines = ["rule append", "  command = { cat $in; echo $step; } > $out", ""]
    for model in models(count):
        for step in STEPS:
            read, made, _ = _shell(model, step)
            lines += [f"build {made}: append {read}", f"  step = {step}"]
    (root / "build.ninja").write_text("\n".join(lines) + "\n")


def write_make(root: Path, count: int) -> None:
    write_sources(root, count)
    _out_folders(root, count)
    lines = ["all: " + " ".join(f"out/{model}.4" for model in models(count))]
    for model in models(count):
        for step in STEPS:
            read, made, command = _shell(model, step)
            lines += [f"{made}: {read}", f"\t@{command}"]
    (root / "Makefile").write_text("\n".join(lines) + "\n")


def write_doit(root: Path, count: int) -> None:
    write_sources(root, count)
    _out_folders(root, count)
    tasks = []
    for model in models(count):
        for step in STEPS:
            read, made, command = _shell(model, step)
            tasks.append({"name": made, "actions": [command], "file_dep": [read], "targets": [made]})
    (root / "tasks.json").write_text(json.dumps(tasks))
    (root / "dodo.py").write_text(
        "import json\n\n\ndef task_all():\n    with open('tasks.json') as file:\n        yield from json.load(file)\n"
    )


def write_scons(root: Path, count: int) -> None:
    write_sources(root, count)
    edges = [list(_shell(model, step)) for model in models(count) for step in STEPS]
    (root / "edges.json").write_text(json.dumps(edges))
    (root / "SConstruct").write_text(
        "import json\n\nenv = Environment(tools=[])\nfor read, made, command in json.load(open('edges.json')):\n"
        "    env.Command(made, read, command)\n"
    )


def write_snakemake(root: Path, count: int) -> None:
    write_sources(root, count)
    names = list(models(count))
    lines = [f"rule all:\n    input: {[f'out/{name}.4' for name in names]!r}\n"]
    for step in STEPS:
        read = f"out/{{m}}.{step - 1}" if step > 1 else "model/{m}.in"
        command = f"{{{{ cat {{input}}; echo {step}; }}}} > {{output}}"
        lines.append(
            f'rule append{step}:\n    input: "{read}"\n    output: "out/{{m}}.{step}"\n'
            f'    wildcard_constraints: m="p[0-9]+/m[0-9]+"\n    shell: "{command}"\n'
        )
    (root / "Snakefile").write_text("\n".join(lines))


def write_dvc(root: Path, count: int) -> None:
    write_sources(root, count)
    _out_folders(root, count)
    stages = {}
    for model in models(count):
        for step in STEPS:
            read, made, command = _shell(model, step)
            name = f"{model.replace('/', '-')}-{step}"
            stages[name] = {"cmd": command, "deps": [read], "outs": [made]}
    (root / "dvc.yaml").write_text(json.dumps({"stages": stages}, indent=0))  # JSON is YAML


def _write_npm(root: Path, count: int) -> None:
    """Write an npm package for each folder of models, with its four steps as scripts over all its models: the unit of
    these tools is a package's script, and a package per model would be unfair to them."""
    write_sources(root, count)
    (root / ".gitignore").write_text("out/\nnode_modules/\n.turbo/\n.nx/\n.moon/cache/\n")
    for package, names in _packages(count).items():
        folder = root / f"model/{package}"
        scripts = {}
        for step in STEPS:
            read = f"out/$m.{step - 1}" if step > 1 else "$m.in"
            loop = f"for m in {' '.join(names)}; do {{ cat {read}; echo {step}; }} > out/$m.{step}; done"
            scripts[f"append{step}"] = f"mkdir -p out; {loop}"
        text = {"name": package, "version": "1.0.0", "private": True, "scripts": scripts}
        (folder / "package.json").write_text(json.dumps(text, indent=1))
    top = {"name": "bench", "private": True, "packageManager": "npm@10.0.0", "workspaces": ["model/*"]}
    (root / "package.json").write_text(json.dumps(top, indent=1))


def _npm_tasks(step: int) -> tuple[list[str], list[str], list[str]]:
    """Return a step's inputs, outputs and preceding steps within a package."""
    return (
        ["*.in"] if step == 1 else [f"out/*.{step - 1}"],
        [f"out/*.{step}"],
        [f"append{step - 1}"] if step > 1 else [],
    )


def write_turbo(root: Path, count: int) -> None:
    _write_npm(root, count)
    tasks = {}
    for step in STEPS:
        reads, writes, after = _npm_tasks(step)
        tasks[f"append{step}"] = {"inputs": reads, "outputs": writes, "dependsOn": after}
    (root / "turbo.json").write_text(json.dumps({"tasks": tasks, "globalDependencies": []}, indent=1))
    packages: dict[str, object] = {"": {"workspaces": ["model/*"]}}
    for package in _packages(count):
        packages[f"model/{package}"] = {"name": package, "version": "1.0.0"}
    lock = {"name": "bench", "lockfileVersion": 3, "requires": True, "packages": packages}
    (root / "package-lock.json").write_text(json.dumps(lock))


def write_nx(root: Path, count: int) -> None:
    _write_npm(root, count)
    defaults = {}
    for step in STEPS:
        reads, writes, after = _npm_tasks(step)
        defaults[f"append{step}"] = {
            "inputs": [f"{{projectRoot}}/{path}" for path in reads]
            if step == 1
            else [{"dependentTasksOutputFiles": "**/*"}],
            "outputs": [f"{{projectRoot}}/{path}" for path in writes],
            "dependsOn": after,
            "cache": True,
        }
    (root / "nx.json").write_text(json.dumps({"targetDefaults": defaults, "analytics": False}, indent=1))


def write_moon(root: Path, count: int) -> None:
    _write_npm(root, count)
    (root / ".moon").mkdir(exist_ok=True)
    workspace = {"projects": ["model/*"], "telemetry": False, "vcs": {"defaultBranch": "main"}}
    (root / ".moon/workspace.yml").write_text(json.dumps(workspace))  # JSON is YAML
    for package in _packages(count):
        folder = root / f"model/{package}"
        scripts = json.loads((folder / "package.json").read_text())["scripts"]
        tasks = {}
        for step in STEPS:
            reads, writes, after = _npm_tasks(step)
            script = scripts[f"append{step}"]
            tasks[f"append{step}"] = {"script": script, "inputs": reads, "outputs": writes, "deps": after}
        (folder / "moon.yml").write_text(json.dumps({"tasks": tasks}))


def write_bazel(root: Path, count: int) -> None:
    write_sources(root, count)
    (root / "WORKSPACE").write_text("")
    for package, names in _packages(count).items():
        lines = []
        for name in names:
            for step in STEPS:
                read = f"{name}.{step - 1}" if step > 1 else f"{name}.in"
                command = f"{{ cat $<; echo {step}; }} > $@"
                lines.append(f'genrule(name="{name}_{step}", srcs=["{read}"], outs=["{name}.{step}"], cmd="{command}")')
        (root / f"model/{package}/BUILD").write_text("\n".join(lines) + "\n")


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "modelbuild": write_modelbuild,
    "ninja": write_ninja,
    "make": write_make,
    "doit": write_doit,
    "scons": write_scons,
    "snakemake": write_snakemake,
    "dvc": write_dvc,
    "turbo": write_turbo,
    "nx": write_nx,
    "moon": write_moon,
    "bazel": write_bazel,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=WRITERS)
    parser.add_argument("models", type=int)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    WRITERS[chosen.tool](chosen.folder, chosen.models)


if __name__ == "__main__":
    main()
