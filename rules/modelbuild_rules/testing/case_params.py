"""The parameters of the cases of a pte_test, and errors in their declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Context
from modelbuild.errors import did_you_mean
from modelbuild_rules.model.inputs import Place
from modelbuild_rules.model.methods import check_names
from modelbuild_rules.testing.cases import CaseStep, Draw, TestCase
from modelbuild_rules.testing.tested_methods import TestedMethods

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import CaseParams, CaseStepParams, DrawParams


def case_params(
    ctx: Context[Any], index: int, case: TestCase, tested: TestedMethods
) -> tuple[CaseParams, dict[str, tuple[Artifact, ...]]]:
    """Return a case's parameters, and its files by the names of inputs of the step."""
    if [bool(case.files), bool(case.calls), case.generator is not None, bool(case.steps)].count(True) != 1:
        message = f"case '{case.name}': expected one of 'files', 'calls', 'generator' and 'steps'"
        raise ctx.error(("cases", index), message)
    files: dict[str, tuple[Artifact, ...]] = {}
    steps: list[CaseStepParams] = []
    seen: list[str] = []
    for number, (step, where, what) in enumerate(_steps(case)):
        called = step.method or tested.default
        assert called is not None
        _check_step(ctx, ("cases", index, *where), f"{what}case '{case.name}'", called, step, tested, seen)
        for name, source in step.files.items():
            files[f"case.{index}.{number}.{name}"] = (ctx.file(source),)
        steps.append(
            {
                "method": called,
                "calls": step.calls,
                "files": sorted(step.files),
                "feed": {name: {"output": each.output, "argmax": each.argmax} for name, each in step.feed.items()},
                "count": dict(step.count),
                "generator": _draw(step.generator),
            }
        )
        seen.append(called)
    return {"name": case.name, "drawn": case.generator.count if case.generator else 0, "steps": steps}, files


def _steps(case: TestCase) -> Iterator[tuple[CaseStep, Place, str]]:
    """Yield a case's steps, each with its place in the declaration and its name in messages."""
    if case.files:
        yield CaseStep.model_construct(files=case.files), ("files",), ""
    for number, files in enumerate(case.calls):
        yield CaseStep.model_construct(files=files), ("calls", number), f"call {number + 1} of "
    if case.generator:
        yield CaseStep.model_construct(calls=case.generator.calls, generator=case.generator), ("generator",), ""
    for number, step in enumerate(case.steps):
        yield step, ("steps", number), f"step {number + 1} of "


def _draw(generator: Draw | None) -> DrawParams | None:
    if generator is None:
        return None
    return {
        "seed": generator.seed,
        "distribution": generator.distribution,
        "range": generator.range,
        "mean": generator.mean,
        "std": generator.std,
        "sizes": generator.sizes,
    }


def _check_step(
    ctx: Context[Any],
    place: Place,
    what: str,
    method: str,
    step: CaseStep,
    tested: TestedMethods,
    before: Sequence[str],
) -> None:
    """Raise LoadingError for a step with an input that is missing or given twice. `before`: the methods called before
    it."""
    names, in_steps = tested.inputs(method), "steps" in place
    # Outside `steps`, the place is the case's table.
    tables = {name: (*place, name) if in_steps else place for name in ("files", "feed", "count", "generator")}
    given: dict[str, str] = {}
    for table in ("files", "feed", "count"):
        own: Mapping[str, object] = getattr(step, table)
        check_names(ctx, "input", tables[table], own, names)
        for name in own:
            if name in given:
                message = f"{what}: the input '{name}' is in '{given[name]}' and in '{table}'; expected one of them"
                raise ctx.error((*tables[table], name), message)
            given[name] = table
    if step.generator is None and (missing := [name for name in names if name not in given]):
        expected = "; expected it in 'files', 'feed' or 'count', or a 'generator'" if in_steps else ""
        raise ctx.error(place, f"{what}: no {'value' if in_steps else 'file'} for the input '{missing[0]}'{expected}")
    if step.generator is not None:
        span = step.generator.range
        if span and not span[0] <= span[1]:
            raise ctx.error((*tables["generator"], "range"), f"expected [lowest, highest], got {[*span]}")
        place = (*tables["generator"], "sizes")
        check_names(ctx, "dynamic dimension", place, step.generator.sizes, tested.dynamic(method))
    for name, fed in step.feed.items():
        where = (*tables["feed"], name)
        if not before:
            raise ctx.error(where, f"{what}: no call is before it; expected '{name}' in 'files' or 'count'")
        known = tested.outputs(before)
        if known is not None and fed.output not in known:
            hint = did_you_mean(fed.output, known) or f"; expected {', '.join(known)}"
            raise ctx.error((*where, "output"), f"{what}: no call before it returns '{fed.output}'{hint}")
