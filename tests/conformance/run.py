"""Print the outcomes of kinds.

python tests/conformance/run.py 'add' 'nn.functional.conv*'         # operators, and forms
python tests/conformance/run.py 'add float16*' --stack portable -v  # kinds
python tests/conformance/run.py 'add' --record                      # record names in outcomes.txt
python tests/conformance/run.py --figures                           # count the recorded operators
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conformance.attempt import STACKS, Outcome, attempt, warm  # noqa: E402
from tests.conformance.record import figures, letters, record  # noqa: E402
from tests.conformance.table import kinds_of, names  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of operators, forms or kinds; default: all")
    parser.add_argument("--stack", action="append", choices=STACKS, help="default: all")
    parser.add_argument("--record", action="store_true", help="record the outcomes of the names in outcomes.txt")
    parser.add_argument("--figures", action="store_true", help="print only how many recorded operators are right")
    parser.add_argument("-v", "--verbose", action="store_true", help="print kinds that are right, too")
    options = parser.parse_args()
    if options.figures:
        print(figures())
        return 0
    stacks = tuple(STACKS) if options.record else options.stack or tuple(STACKS)
    warm()
    every: list[tuple[str, Outcome]] = []
    for name in names(options.patterns):
        row: dict[str, list[str]] = {stack: [] for stack in stacks}
        for kind in kinds_of(name, ("*",) if options.record else options.patterns):
            for stack, outcome in attempt(kind, stacks).items():
                row[stack].append(outcome.word)
                every.append((stack, outcome))
                if options.verbose or outcome.word != "right":
                    print(f"{stack}\t{kind.name}\t{outcome.word}\t{outcome.why}", flush=True)
        if options.record:
            record(name, {stack: letters(words) for stack, words in row.items()})
    for (stack, word), count in sorted(Counter((stack, outcome.word) for stack, outcome in every).items()):
        print(f"{stack}: {count} {word}", file=sys.stderr)
    return any(outcome.is_fault for _, outcome in every)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(main())
