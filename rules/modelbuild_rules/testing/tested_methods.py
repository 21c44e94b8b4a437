"""The methods of a program that a pte_test calls, and the model of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Context
from modelbuild_rules.method_names import FORWARD
from modelbuild_rules.model.methods import by_method, method_of, modules_of, nearest, place_of
from modelbuild_rules.providers import EagerMethod, ExportedMethod, Lowering, Program
from modelbuild_rules.testing.cases import TestCase

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import MethodParams


@dataclass(frozen=True)
class TestedMethod:
    """A method that a test calls.

    eager     its model in eager PyTorch
    exported  its model as an exported program
    lowering  the lowering of the program's method; None if unknown
    module    the number of the model's module; methods with the same number share their state
    placed    the number of the program's module; methods with the same number share their state
    """

    eager: EagerMethod
    exported: ExportedMethod
    lowering: Lowering | None
    module: int
    placed: int


@dataclass(frozen=True)
class TestedMethods:
    """The methods that a test calls, by name, in the order of their first calls.

    default   the method of calls that name no method; None if all calls name a method
    measured  the only method whose nodes and partitions are counted; None to count all methods
    """

    called: Mapping[str, TestedMethod]
    default: str | None
    measured: str | None

    def inputs(self, method: str) -> list[str]:
        """Return the names of a method's inputs."""
        return [each["name"] for each in self.called[method].eager.params["inputs"]]

    def dynamic(self, method: str) -> list[str]:
        """Return the names of a method's dynamic dimensions."""
        return list(self.called[method].eager.params["dynamic"])

    def outputs(self, methods: Iterable[str] | None = None) -> list[str] | None:
        """Return the names of outputs of methods, by default of all methods; None if only the program knows the outputs
        of a method."""
        found: dict[str, None] = {}
        for method in self.called if methods is None else methods:
            own = self.called[method].eager.params["outputs"]
            if own is None:
                return None
            found |= dict.fromkeys(own)
        return list(found)

    @cached_property
    def _places(self) -> Mapping[str, str]:
        """Return the prefix of the names of each model's inputs. Methods with equal inputs share a prefix."""
        places: dict[str, str] = {}
        for name, each in self.called.items():
            known = next((one for one in places if self.called[one].eager.inputs == each.eager.inputs), None)
            places[name] = (f"method.{name}." if places else "") if known is None else places[known]
        return places

    def params(self) -> dict[str, MethodParams]:
        """Return the parameters from which a step makes the models."""
        return {
            name: {"eager": each.eager.params, "inputs": self._places[name], "module": each.module}
            for name, each in self.called.items()
        }

    def eager_inputs(self) -> dict[str, tuple[Artifact, ...]]:
        """Return the inputs from which a step makes the models."""
        given = ((self._places[method], each.eager.inputs) for method, each in self.called.items())
        return {f"{place}{name}": files for place, inputs in given for name, files in inputs.items()}

    def python(self) -> tuple[str, ...]:
        """Return the names of inputs that are Python files of the models."""
        return tuple(dict.fromkeys(f"{place}srcs" for place in self._places.values()))

    def data(self) -> tuple[str, ...]:
        """Return the names of inputs that are files which the models' code reads."""
        return tuple(name for name in self.eager_inputs() if name.rpartition(".")[2] == "data")

    def tools(self) -> tuple[str, ...]:
        """Return the distributions whose versions decide the models' results."""
        return tuple(dict.fromkeys(tool for each in self.called.values() for tool in each.eager.tools))


def tested_methods(ctx: Context[Any], program: Program, cases: Sequence[TestCase]) -> TestedMethods:
    """Return the methods that the cases call. Raises LoadingError for an unknown method, or a method without a
    model."""
    attrs, known = ctx.attrs, list(program.methods)
    for name in attrs.model if isinstance(attrs.model, dict) else ():
        _check(ctx, ("model", name), name, known)
    default = _default(ctx, known)
    called: dict[str, None] = {}
    for index, case in enumerate(cases):
        for number, name in enumerate(case.methods(default)):
            if name is None:
                expected = f"expected 'method', one of: {', '.join(known)}"
                raise ctx.error("program", f"'{attrs.program}' has several methods; {expected}")
            if case.steps and case.steps[number].method is not None:
                _check(ctx, ("cases", index, "steps", number, "method"), name, known)
            called[name] = None
    if attrs.method is not None and attrs.method not in called:
        raise ctx.error("method", f"no case calls '{attrs.method}'; expected none, or one of: {', '.join(called)}")
    for name in called:
        if by_method(attrs.model, name) is None:
            raise ctx.error("model", f"no model of the method '{name}' is given; expected the label of a torch_model")
    modules = modules_of(ctx, attrs.model, list(called))
    methods = {name: _tested(ctx, program, name, modules[name]) for name in called}
    return TestedMethods(methods, default, attrs.method or (next(iter(called)) if len(called) == 1 else None))


def compared_with(attrs: Any) -> str:
    """Return the labels of a test's models, for messages."""
    labels = attrs.model.values() if isinstance(attrs.model, dict) else (attrs.model,)
    return ", ".join(dict.fromkeys(str(each) for each in labels))


def _default(ctx: Context[Any], known: Sequence[str]) -> str | None:
    """Return the test's method: the named method, the only method or `forward`."""
    wanted: str | None = ctx.attrs.method
    if wanted is not None:
        _check(ctx, "method", wanted, known)
        return wanted
    return known[0] if len(known) == 1 else FORWARD if FORWARD in known else None


def _check(ctx: Context[Any], place: str | tuple[str | int, ...], name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ctx.error(place, f"'{ctx.attrs.program}' has no method '{name}'{nearest(name, known)}")


def _tested(ctx: Context[Any], program: Program, name: str, module: int) -> TestedMethod:
    """Return a method."""
    given = ctx.attrs.model
    label = by_method(given, name)
    assert label is not None
    place = place_of("model", given, name)
    found = method_of(ctx, label, name, place)
    if found.eager is None:
        raise ctx.error(place, f"'{label}' has no module in Python; expected a torch_model, or a quantized_model")
    method = program.methods[name]
    return TestedMethod(found.eager, found.exported, method.lowering, module, method.module)
