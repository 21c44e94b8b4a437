"""Build programs of the zoo, and write their outcomes into the table of docs/reference/models.md.

    python tests/zoo/table.py --stack xnnpack                        # all models
    python tests/zoo/table.py --stack cuda //own:temporal            # one
    python tests/zoo/table.py --write                                # only the table, of the outcomes so far

Outcomes are kept in tests/zoo/outcomes.json, so the table can be made in parts.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.zoo.programs import ROOT, STACKS, ZOO, Outcome, RuntimeMissing, add_runtime, build, models

KEPT = ZOO / "outcomes.json"
PAGE = ROOT / "docs/reference/models.md"
HEAD = ["model", *STACKS]
START, END = "<!--outcomes-->\n\n", "\n\n<!--end-->"
WHOLE = "100%, 1"
"""The cell of a program that is one partition."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "models", nargs="*", metavar="LABEL", help="models, such as //timm_models:resnet18; default: all"
    )
    parser.add_argument("--stack", action="append", choices=STACKS, help="default: all")
    parser.add_argument("--new", action="store_true", help="only programs without an outcome")
    parser.add_argument("--write", action="store_true", help="build nothing")
    options = parser.parse_args()
    outcomes = {(each.model, each.stack): each for each in kept()}
    if not options.write:
        if "xnnpack" in (options.stack or STACKS):
            try:
                add_runtime(ZOO)
            except RuntimeMissing as missing:
                print(missing, file=sys.stderr)
                return 2
        for stack in options.stack or STACKS:
            for model in options.models or models():
                if options.new and (model, stack) in outcomes:
                    continue
                outcomes[model, stack] = outcome = build(model, stack)
                _keep(list(outcomes.values()))
                print(_line(outcome), file=sys.stderr, flush=True)
    PAGE.write_text(page())
    return 0


def kept() -> list[Outcome]:
    """Return the outcomes of models that are in the zoo."""
    known = models()
    return [each for each in (Outcome(**row) for row in json.loads(KEPT.read_text())) if each.model in known]


def page() -> str:
    """Return docs/reference/models.md with the kept outcomes instead of its own."""
    before, _, rest = PAGE.read_text().partition(START)
    outcomes = {(each.model, each.stack): each for each in kept()}
    return before + START + _outcomes(outcomes) + END + rest.partition(END)[2]


def _keep(outcomes: list[Outcome]) -> None:
    place = {model: number for number, model in enumerate(models())}
    outcomes.sort(key=lambda each: (place[each.model], STACKS.index(each.stack)))
    KEPT.write_text("[\n" + ",\n".join(json.dumps(asdict(each)) for each in outcomes) + "\n]\n")


def _line(outcome: Outcome) -> str:
    built = f"{outcome.delegated:.0%} in {outcome.partitions}" if outcome.built else "not built"
    return f"{outcome.stack} {outcome.model}: {built} {outcome.parity} {outcome.seconds:.0f} s {outcome.reason}"


def _outcomes(outcomes: dict[tuple[str, str], Outcome]) -> str:
    """Return a list of the models that are one partition for TensorRT and CUDA, and a table of the rest."""
    whole: dict[str, list[str]] = {}
    rows = [HEAD, ["---"] * len(HEAD)]
    differing = []
    for model in models():
        each = [outcomes.get((model, stack)) for stack in STACKS]
        name, cells = model.removeprefix("//"), [*map(_cell, each)]
        if cells[1:] == [WHOLE] * len(cells[1:]):
            package, _, name = name.partition(":")
            whole.setdefault(package, []).append(f"{name} {cells[0]}")
        else:
            rows.append([name, *cells])
        if each[0] and each[0].built and each[0].parity != "yes":
            differing.append(f"`{model}`")
    agree = "Every program for XNNPACK agrees"
    if differing:
        agree += f", except {', '.join(differing)}"
    agree += (
        ". These models are one partition with all nodes for `tensorrt` and for `cuda`; the cells are of `xnnpack`:"
    )
    packages = "\n".join(f"- `//{package}`: {'; '.join(names)}" for package, names in whole.items())
    return "\n\n".join([agree, packages, "The others:", "\n".join(map(_row, rows))])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return f"{outcome.delegated:.0%}, {outcome.partitions}" if outcome.built else "not built"


if __name__ == "__main__":
    raise SystemExit(main())
