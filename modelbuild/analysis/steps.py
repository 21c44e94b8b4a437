"""Check that the steps of declared actions exist and are Python, and find the imports of a workspace's own steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from modelbuild.actions import INSTALLED, Action
from modelbuild.code.interpreter import Interpreter, installed
from modelbuild.code.step_sources import StepCode, imports, parse, source_file
from modelbuild.code.tools import Tools
from modelbuild.errors import LoadingError, Location, did_you_mean
from modelbuild.workspace.workspace import BUILT_IN


class Steps:
    """Steps of the rule packages in `packages` (import name -> folder), in the workspace at `root`. `interpreter`
    returns the Python of a toolchain, by its name."""

    def __init__(
        self,
        packages: Mapping[str, Path],
        root: Path,
        interpreter: Callable[[str], Interpreter] = lambda toolchain: installed(),
    ) -> None:
        self._packages = packages
        self._root = root
        self._code = StepCode(packages)
        self._interpreter = interpreter
        self._imported: dict[tuple[tuple[str, ...], tuple[str, ...], str], tuple[str, ...]] = {}
        self._tools: dict[str, Tools] = {}

    def complete(self, action: Action) -> Action:
        """Return the action, with the preloads of rule packages among its plug-ins, and with the distributions that its
        modules import among its tools. Not for built-in modules: their rules list the tools, because most tools belong
        to one backend and a step imports only the tools that it needs.

        Raises LoadingError for a missing step or plug-in, and for a module that is not Python.
        """
        loaded = [module for module in action.preload if module.partition(".")[0] in self._packages]
        action = replace(action, plugins=(*action.plugins, *loaded)) if loaded else action
        own = any(module.partition(".")[0] != BUILT_IN for module in action.modules)
        python = self._interpreter(action.toolchain if own else INSTALLED)
        step = (action.modules, action.tools, python.program)
        if step not in self._imported:
            self._imported[step] = self._look(action, python)
        more = self._imported[step]
        return replace(action, tools=tuple(dict.fromkeys((*action.tools, *more)))) if more else action

    def _look(self, action: Action, python: Interpreter) -> tuple[str, ...]:
        for module in (action.step, *action.plugins):
            if source_file(self._packages, module) is None:
                raise LoadingError(self._missing(module))
        own = [module for module in action.modules if module.partition(".")[0] != BUILT_IN]
        if not own:
            return ()
        try:
            closure = self._code.closure(*own)
        except SyntaxError:
            raise self._not_python(self._packages[own[0].partition(".")[0]]) from None
        if python.program not in self._tools:
            self._tools[python.program] = Tools(self._root, ("modelbuild", *self._packages), python)
        return self._tools[python.program].imported(name for module, file in closure for name in imports(file, module))

    def _missing(self, step: str) -> str:
        package, *rooms, name = step.split(".")
        if package not in self._packages:
            return f"no step '{step}': there is no rule package '{package}'{did_you_mean(package, self._packages)}"
        folder = self._packages[package].joinpath(*rooms)
        there = [each.stem for each in folder.glob("*.py") if each.stem != "__init__"]
        return f"no step '{name}': there is no {self._shown(folder)}/{name}.py{did_you_mean(name, there)}"

    def _not_python(self, folder: Path) -> LoadingError:
        """Return an error for the first file that does not parse."""
        for file in sorted(folder.rglob("*.py")):
            try:
                parse(file.read_bytes())
            except SyntaxError as error:
                where = Location(self._shown(file), error.lineno or 1, error.offset or 1)
                return LoadingError(f"not Python: {error.msg}", where)
        return LoadingError(f"the steps of {self._shown(folder)} were written to while they were read; build again")

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)
