"""Print the outcomes of kinds.

python tests/conformance/run.py 'add' 'nn.functional.conv*'         # operators, and forms
python tests/conformance/run.py 'add float16*' --stack portable -v  # kinds
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conformance.attempt import STACKS, attempt, warm  # noqa: E402
from tests.conformance.table import kinds_of, names  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of operators, forms or kinds; default: all")
    parser.add_argument("--stack", action="append", choices=STACKS, help="default: all")
    parser.add_argument("--runtime", type=Path, default=ROOT / "build/runtime", help="folder of the C++ runtime")
    parser.add_argument("-v", "--verbose", action="store_true", help="print kinds that are right, too")
    options = parser.parse_args()
    warm()
    counts: dict[tuple[str, str], int] = {}
    for name in names(options.patterns):
        for kind in kinds_of(name, options.patterns):
            for stack, outcome in attempt(kind, options.runtime, options.stack or tuple(STACKS)).items():
                counts[stack, outcome.word] = counts.get((stack, outcome.word), 0) + 1
                if options.verbose or outcome.word != "right":
                    print(f"{stack}\t{kind.name}\t{outcome.word}\t{outcome.why}", flush=True)
    for (stack, word), count in sorted(counts.items()):
        print(f"{stack}: {count} {word}", file=sys.stderr)
    return any(word not in ("right", "refused") for _, word in counts)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(main())
