"""Compare modelbuild with other tools on the same graph, in one run.

    make bench                                   everything: first installs the peers into build/bench
    benchmarks/bench.py --models 2500 --tools modelbuild,ninja --scenarios null
    benchmarks/bench.py --models 100000 --tools modelbuild,ninja,make --scenarios load,one --unbuilt

All tools take turns in every scenario, round after round, so that a change in the machine's speed affects all equally.
The script prints a table, and writes it with a plot and all samples to the output folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from graphs import WRITERS, models
from measure import Figures, Sample, measure
from peers import TOOLS, Installed, Tool, install
from plot import bars

# A change must be older than the granularity of a file system's clock when a build checks it.
SETTLE = 0.1

SCENARIOS = {
    "null": "nothing changed",
    "touch": "one source has a new time and the same content",
    "leaf": "one source changed: four steps run",
    "one": "one source changed, and only its model is built",
    "load": "loading and listing the graph",
    "affected": "targets affected by a source changed since the last commit",
    "restore": "outputs removed, results cached",
}


class Bench:
    """A folder for each tool, with the same graph."""

    def __init__(self, folder: Path, installed: Installed, count: int, keep: bool, unbuilt: bool) -> None:
        self._folder = folder
        self._keep = keep
        self._unbuilt = unbuilt
        if not keep:
            shutil.rmtree(folder / "cache", ignore_errors=True)
        self._environment = {**os.environ, "PATH": installed.path, "MODELBUILD_CACHE_DIR": str(folder / "cache")}
        self._environment.pop("PYTHONPATH", None)
        self._count = count
        self._round = 0

    def count(self, tool: Tool) -> int:
        return min(self._count, tool.most)

    def prepare(self, tool: Tool) -> Sample | None:
        """Write the graph and build all of it once. Raises RuntimeError if that fails."""
        root = self._folder / tool.name
        if not self._keep or not root.is_dir():
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            WRITERS[tool.name](root, self.count(tool))
            for command in tool.setup:
                self._run(tool, command)
            time.sleep(SETTLE)
        return None if self._unbuilt else self._run(tool, tool.build)

    def finish(self, tool: Tool) -> None:
        for command in tool.teardown:
            self._run(tool, command)

    def scenario(self, tool: Tool, name: str) -> Sample:
        self._round += 1
        getattr(self, f"_{name}", self._null)(tool)
        time.sleep(SETTLE)
        commands = {
            "load": tool.load,
            "restore": tool.restore,
            "affected": tool.affected,
            "one": self._command_of_one(tool),
        }
        return self._run(tool, commands.get(name, tool.build))

    def _null(self, tool: Tool) -> None:
        pass

    def _touch(self, tool: Tool) -> None:
        os.utime(self._source(tool))

    def _leaf(self, tool: Tool) -> None:
        self._source(tool).write_text(f"changed {self._round}\n")

    _one = _affected = _leaf

    def _restore(self, tool: Tool) -> None:
        for pattern in tool.outputs:
            for path in (self._folder / tool.name).glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _model(self, tool: Tool) -> str:
        names = list(models(self.count(tool)))
        return names[len(names) // 2]

    def _source(self, tool: Tool) -> Path:
        return self._folder / tool.name / f"model/{self._model(tool)}.in"

    def _command_of_one(self, tool: Tool) -> tuple[str, ...]:
        model = self._model(tool)
        package, _, name = model.partition("/")
        return tuple(part.format(model=model, package=package, name=name) for part in tool.one)

    def _run(self, tool: Tool, command: tuple[str, ...]) -> Sample:
        log = self._folder / f"{tool.name}.log"
        return measure(command, self._folder / tool.name, {**self._environment, **tool.environment}, log)


def run(bench: Bench, tools: list[Tool], scenarios: list[str], rounds: int) -> Iterator[tuple[str, str, Figures]]:
    """Yield (scenario, tool, figures). The first scenario is the cold build, done once. Skip tools that fail."""
    for tool in list(tools):
        say(f"{tool.name}: cold build of {4 * bench.count(tool)} actions")
        try:
            cold = bench.prepare(tool)
        except RuntimeError as error:
            say(f"{tool.name} is skipped: {error}")
            tools.remove(tool)
            continue
        if cold is not None:
            yield "cold", tool.name, Figures((cold,))
    for name in scenarios:
        able = [tool for tool in tools if name not in tool.blank]
        say(f"{name}: {', '.join(tool.name for tool in able)}")
        for tool in able:
            bench.scenario(tool, name)  # warms up
        samples: dict[str, list[Sample]] = {tool.name: [] for tool in able}
        for _ in range(rounds):
            for tool in able:
                samples[tool.name].append(bench.scenario(tool, name))
        for tool in able:
            yield name, tool.name, Figures(tuple(samples[tool.name]))


def table(results: dict[str, dict[str, Figures]], tools: list[Tool], count: Callable[[Tool], int]) -> Iterator[str]:
    """Yield lines of Markdown, with a table for each scenario."""
    for scenario, found in results.items():
        yield f"**{scenario}** ({SCENARIOS.get(scenario, 'empty caches')})\n"
        yield "| tool | actions | wall, median | p95 | CPU | peak memory | CPU, against modelbuild |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        own = found.get("modelbuild")
        for tool in tools:
            if tool.name in found:
                figures = found[tool.name]
                ratio = f"{figures.ratio(own, 'cpu'):.2f}" if own and count(tool) == count(tools[0]) else ""
                numbers = [
                    seconds(figures.median("wall")),
                    seconds(figures.p95("wall")) if len(figures.samples) > 1 else "",
                    seconds(figures.median("cpu")),
                    f"{figures.median('memory'):.0f} MiB",
                    ratio,
                ]
                yield f"| {tool.name} | {4 * count(tool):,} | " + " | ".join(numbers) + " |"
            elif scenario in tool.blank:
                yield f"| {tool.name} | | {tool.blank[scenario]} | | | | |"
        yield ""


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=250, help="four actions each")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tools", default=",".join(tool.name for tool in TOOLS))
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    parser.add_argument("--unbuilt", action="store_true", help="do not build all first: for graphs that take hours")
    parser.add_argument("--keep", action="store_true", help="use the graphs that an earlier run wrote and built")
    chosen = parser.parse_args()

    folder = chosen.folder.resolve()
    installed = install(folder)
    wanted = chosen.tools.split(",")
    tools = [tool for tool in TOOLS if tool.name in wanted and tool.name not in installed.missing]
    bench = Bench(folder / "graphs", installed, chosen.models, chosen.keep, chosen.unbuilt)
    results: dict[str, dict[str, Figures]] = {}
    for scenario, name, figures in run(bench, tools, chosen.scenarios.split(","), chosen.rounds):
        if scenario != "cold" or not chosen.keep:
            results.setdefault(scenario, {})[name] = figures
        lines = [f"{time.strftime('%Y-%m-%d')}, {machine()}", ""]
        lines += table(results, tools, bench.count)
        lines += [f"{tool.name}: {tool.note}." for tool in tools if tool.note]
        lines += [f"{name}: not measured, {why}." for name, why in installed.missing.items() if name in wanted]
        (folder / "table.md").write_text("\n".join(lines) + "\n")  # keeps results if the run is stopped
    for tool in tools:
        bench.finish(tool)

    print((folder / "table.md").read_text())
    (folder / "plot.svg").write_text(
        bars({s: {t: f.median("wall") for t, f in found.items()} for s, found in results.items()})
    )
    samples = {s: {t: [asdict(x) for x in f.samples] for t, f in found.items()} for s, found in results.items()}
    (folder / "samples.json").write_text(json.dumps(samples, indent=1))


if __name__ == "__main__":
    main()
