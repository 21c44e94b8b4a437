"""Describe why torch.export refuses a model: in one line, with the operator, the places in the code and a hint.

torch's own message may have thousands of lines, with the whole graph. It is printed, and the engine keeps it in a file.

Private names used, checked on torch 2.14.0: torch._subclasses.fake_tensor (DataDependentOutputException,
DynamicOutputShapeException, UnsupportedOperatorException). None is patched.
"""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.exported.dimensions import constraint, suggested

_LONGEST = 200
_LONGEST_CODE = 80
_HINT = re.compile(r"^\s*Hint: (.+)$", re.MULTILINE)
_OWN = ("torch", "modelbuild", "modelbuild_rules", "executorch")
_VALUES = "expected torch.where, torch.cond, or sizes from shapes"
_IN_LIBRARY = ", in a function of yours that 'prepare' puts in the place of the library's"
_OPERATOR = "expected another operator, or a decomposition or fake kernel of it (torch.library.register_fake)"


def refusal(error: Exception, name: str, root: Path) -> StepError | None:
    """Return the error to raise instead of torch.export's exception; None for an exception of the model's own code,
    whose traceback explains it. Prints torch's whole message."""
    frames = list(_frames(error, root))
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    if Path(innermost).is_relative_to(root) and not _operator(error):
        return None
    traceback.print_exception(error)
    where = _places(frames, name, root)
    in_library = bool(frames) and not Path(frames[-1].filename).is_relative_to(root)
    values = _VALUES + _IN_LIBRARY * in_library
    if isinstance(error, GuardOnDataDependentSymNode):
        why = f"depends on values that are known only when the program runs; {values}{_check(error, root)}"
        return StepError(f"{where} {why}")
    if "Constraints violated" in str(error):
        return StepError(f"{name} does not accept every size that 'dynamic' allows; {_sizes(str(error))}")
    operator = _operator(error)
    if operator:
        depends = isinstance(error, (DataDependentOutputException, DynamicOutputShapeException))
        why = f"has a result that depends on values; {values}" if depends else f"is not supported; {_OPERATOR}"
        return StepError(f"{where}: torch {torch.__version__} cannot export the operator {operator}, which {why}")
    hints = "; ".join(dict.fromkeys(_HINT.findall(str(error))))
    words = f"{type(error).__name__}: {_short(first_line(error))}"
    if _package(innermost) not in _OWN:
        return StepError(f"{where}: {words}")  # a library's own
    hint = f"; its hint: {_short(hints)}" if hints else ""
    return StepError(f"{where}: torch {torch.__version__} refuses this, in its own words: {words}{hint}")


def _sizes(text: str) -> str:
    """Return the sizes that torch.export suggests in a message about constraints, or else the first constraint."""
    found = suggested(text.partition("Suggested fixes:\n")[2].partition("\n\n")[0])
    return f"torch.export suggests {found}" if found else f"torch {torch.__version__}: {_short(constraint(text))}"


def _operator(error: BaseException | None) -> str:
    """Return the operator that torch names in an exception or its causes; '' if there is none."""
    while error is not None:
        if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)):
            return str(error.func)
        error = error.__cause__ or error.__context__
    return ""


def _frames(error: BaseException, root: Path) -> Iterator[traceback.FrameSummary]:
    """Yield the frames outside torch and modelbuild, innermost last. The path of `root` may have any names."""
    for frame in traceback.extract_tb(error.__traceback__):
        own = Path(frame.filename).is_relative_to(root)
        if own or (_package(frame.filename) not in _OWN and not frame.filename.startswith("<")):
            yield frame


def _check(error: BaseException, root: Path) -> str:
    """Return the advice to promise the condition of the user's line; '' unless it is a condition on numbers, which are
    not tensors."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame, called in reversed(list(pairwise(frames))):
        if Path(frame.filename).is_relative_to(root):
            symbolic = called.name == "__bool__" and called.filename == torch.__file__
            condition = _condition(frame.line or "") if symbolic else None
            condition = condition if len(condition or "") <= _LONGEST_CODE else "..."
            return f"; or torch._check({condition}) before this line, if that always holds" if condition else ""
    return ""


def _condition(line: str) -> str | None:
    """Return the condition of the first statement or expression with one in a line of source; None if there is none."""
    line = line.strip().removeprefix("el")
    with suppress(SyntaxError):
        for node in ast.walk(ast.parse(f"{line} pass" if line.endswith(":") else line)):
            if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
                return ast.unparse(node.test)
    return None


def _package(file: str) -> str:
    """Return the package of an installed file; '' for other files, except files of modelbuild's checkout."""
    parts = Path(file).parts
    if "site-packages" in parts:
        return parts[len(parts) - parts[::-1].index("site-packages")]
    return next((own for own in _OWN if own in parts[:-1]), "")


def _places(frames: list[traceback.FrameSummary], name: str, root: Path) -> str:
    """Return the innermost line of the user's source, and the line of the library that it calls: `net.py:3: 'a(b)' (in
    lib/x.py:7: 'c')`. Without a line of the user's source, the place begins with the model's name."""
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
    user = (
        f"{Path(own[-1].filename).relative_to(root)}:{own[-1].lineno}: '{own[-1].line}'" if own else f"code in {name}"
    )
    if not frames or frames[-1] in own:
        return user
    last = frames[-1]
    parts = Path(last.filename).parts
    start = len(parts) - parts[::-1].index("site-packages") if "site-packages" in parts else -2
    return f"{user} (in {'/'.join(parts[start:])}:{last.lineno}: '{last.line}')"


def _short(text: object) -> str:
    written = str(text)
    return written if len(written) <= _LONGEST else f"{written[:_LONGEST]}..."
