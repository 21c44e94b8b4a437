"""Build the zoo and print the table of docs/reference/models.md: nodes in backends, partitions, parity.

    python tests/zoo/table.py --stack xnnpack                        # all models
    python tests/zoo/table.py --stack cuda //own:temporal            # one
    python tests/zoo/table.py --show > table.md                      # the outcomes so far

Outcomes are kept in build/zoo.json, so the table can be made in parts.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from programs import STACKS, ZOO, Outcome, build, models

KEPT = ZOO.parent.parent / "build" / "zoo.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "models", nargs="*", metavar="LABEL", help="models, such as //timm_models:resnet18; default: all"
    )
    parser.add_argument("--stack", action="append", choices=STACKS, help="default: all")
    parser.add_argument("--new", action="store_true", help="only programs without an outcome")
    parser.add_argument("--show", action="store_true", help="build nothing")
    options = parser.parse_args()
    outcomes = {(each.model, each.stack): each for each in _kept()}
    if not options.show:
        for stack in options.stack or STACKS:
            for model in options.models or models():
                if options.new and (model, stack) in outcomes:
                    continue
                outcomes[model, stack] = outcome = build(model, stack)
                _keep(list(outcomes.values()))
                print(_line(outcome), file=sys.stderr, flush=True)
    print(_table(outcomes))
    return 0


def _kept() -> list[Outcome]:
    return [Outcome(**each) for each in json.loads(KEPT.read_text())] if KEPT.is_file() else []


def _keep(outcomes: list[Outcome]) -> None:
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")


def _line(outcome: Outcome) -> str:
    built = f"{outcome.delegated:.0%} in {outcome.partitions}" if outcome.built else "not built"
    return f"{outcome.stack} {outcome.model}: {built} {outcome.parity} {outcome.seconds:.0f} s {outcome.reason}"


def _table(outcomes: dict[tuple[str, str], Outcome]) -> str:
    head = ["model", *STACKS, "agrees on XNNPACK"]
    rows = [head, ["---"] * len(head)]
    for model in models():
        each = [outcomes.get((model, stack)) for stack in STACKS]
        rows.append([model.removeprefix("//"), *map(_cell, each), each[0].parity if each[0] else ""])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return f"{outcome.delegated:.0%}, {outcome.partitions}" if outcome.built else "not built"


if __name__ == "__main__":
    raise SystemExit(main())
