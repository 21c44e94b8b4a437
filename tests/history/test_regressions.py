"""The definition of a regression, and its line in `modelbuild history`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest

from modelbuild.errors import EnvironmentProblem
from modelbuild.history.database import open_history
from modelbuild.history.identity import identity
from modelbuild.history.measurements import Point
from modelbuild.history.regressions import change, is_regression, noise
from modelbuild.history.revisions import remember_revision
from modelbuild.report.plot import Panel, write_plot
from tests.command_runner import Ended
from tests.workspace_builder import Workspace


@pytest.mark.parametrize(
    ("name", "values", "worse"),
    [
        ("bytes", [100, 102], True),
        ("bytes", [100, 101], False),
        ("bytes", [100, 90], False),
        ("bytes", [102], False),
        ("delegated_fraction", [0.9, 0.8], True),
        ("delegated_fraction", [0.8, 0.9], False),
        ("latency_ms", [10, 10, 10, 13], True),
        ("latency_ms", [10, 10, 10, 12], False),
        ("latency_ms", [10, 10, 13], False),  # too few values
        ("latency_ms", [10, 10, 14, 10, 13], False),  # it was slower before
        ("latency_ms", [14, *[10] * 10, 13], True),  # that is long ago
        ("seconds", [0, 0, 0, 1], False),
        ("peak_memory", [10, 10, 10, 13], True),
        ("clock_mhz", [10, 10, 10, 13], False),  # neither good nor bad
        ("temperature_c", [10, 10, 10, 13], False),
    ],
)
def test_what_is_worse(name: str, values: Sequence[float], worse: bool) -> None:
    assert is_regression(name, values) == worse


@pytest.mark.parametrize(
    ("name", "before", "base", "now", "mark"),
    [
        ("latency_ms", [10, 3, 9.5], 10, 3.2, "within noise"),  # 68% better, as it has been before
        ("latency_ms", [10, 9, 9.5], 10, 3.2, ""),
        ("latency_ms", [10, 9, 9.5], 10, 8.5, "within noise"),  # less than a fifth
        ("latency_ms", [10, 9], 10, 3.2, "few values"),
        ("latency_ms", [3, *[10] * 10], 10, 3.2, ""),  # that is long ago
        ("latency_ms", [10, 10, 10], 30, 20, "within noise"),  # between the base and the values here
        ("memory", [100, 100, 100], 0, 1, "within noise"),
        ("latency_ms", [10, 10, 10], 10, 10, ""),
        ("bytes", [], 100, 101, ""),
    ],
)
def test_noise_is_what_earlier_values_show(
    name: str, before: Sequence[float], base: float, now: float, mark: str
) -> None:
    assert noise(name, before, base, now) == mark


def test_change_is_against_the_median() -> None:
    assert change([1, 2, 30, 3]) == 0.5
    assert change([7]) is None


def measure(workspace: Workspace, *rows: tuple[str, str, int, float]) -> None:
    """Write subject, name, time and value of measures to the history."""
    sql = "INSERT INTO measures VALUES (?, ?, ?, ?, ?, '')"
    with closing(open_history(workspace.cache)) as database:
        assert database.write((sql, [(identity(workspace.root), *row) for row in rows]))


def test_the_command_says_it(workspace: Workspace) -> None:
    def history(*arguments: str) -> Ended:
        return workspace.run("history", "//m:a", *arguments)

    workspace.write({"MODELBUILD.toml": ""})
    workspace.cache.mkdir()
    rows = [("//m:a (cpu)", "bytes", 1000.0), ("//m:a (cpu)", "latency_ms", 10.0), ("//m:ab (cpu)", "bytes", 9.0)]
    measure(workspace, *((subject, name, at, value) for subject, name, value in rows for at in range(4)))
    same = history("--check")
    assert (same.code, same.out) == (
        0,
        "//m:a (cpu) bytes: last 1,000, median 1,000, 1,000 to 1,000 (4)\n"
        "//m:a (cpu) latency_ms: last 10, median 10, 10 to 10 (4)\n",
    )
    measure(workspace, ("//m:a (cpu)", "bytes", 9, 1120.0))
    grown = history("--check")
    assert grown.code == 1
    assert grown.out.startswith("//m:a (cpu) bytes: last 1,120, median 1,000, 1,000 to 1,120 (5)  WORSE by 12%\n")
    assert "latency_ms: last 10, median 10, 10 to 10 (4)\n" in grown.out
    told = history("--json", "--plot", "plot.svg")
    titles, colours = drawn(workspace.root / "plot.svg")
    panels = {"(cpu) size (KiB)  WORSE by 12%", "(cpu) latency (ms)"}
    assert {"//m:a", "1970-01-01", *panels} <= set(titles)
    assert colours == ["#1f77b4"] * 5 + ["#ff0000"] + ["#1f77b4"] * 4 + ["#1f77b4"]
    nowhere = history("--plot", "no/plot.svg")
    assert (nowhere.code, nowhere.err) == (2, f"error: {workspace.root}/no/plot.svg: No such file or directory\n")
    unknown = history("--plot", "plot.doc")
    assert (unknown.code, unknown.err.count("\n")) == (2, 1)
    assert unknown.err.startswith(f"error: {workspace.root}/plot.doc: Format 'doc' is not supported")
    assert history("--plot", "plot.png").code == 0
    assert (workspace.root / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert told.code == 0
    assert [(each["name"], each["change"], each["regression"]) for each in told.json["series"]] == [
        ("bytes", 0.12, True),
        ("latency_ms", 0.0, False),
    ]


def drawn(plot: Path) -> tuple[list[str | None], list[str]]:
    """Return the texts of a plot, and the colours of its points."""
    picture = ElementTree.parse(plot).getroot()
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    points = picture.findall(".//{*}g[@id]/{*}g[@clip-path]/{*}use")
    return texts, [point.get("style", "").partition("fill: ")[2].partition(";")[0] for point in points]


def test_a_plot_has_totals_first_and_parts_on_request(workspace: Workspace) -> None:
    workspace.write({"MODELBUILD.toml": ""})
    workspace.cache.mkdir()
    parts = [(f"//m:a (cpu)#compile:p{part}", at) for part in range(7) for at in (10, 20, 30)]
    measure(workspace, *((subject, "seconds", at, 60.0 + at) for subject, at in parts))
    measure(workspace, *((subject, "max_rss", at, 472_000_000.0 + at) for subject, at in parts))
    measure(workspace, *(("//m:a (cpu)", "bytes", at, 3 << 20) for at in (10, 20, 30)))
    values = {("//m:a (cpu)", "bytes"): 1.0}
    remember_revision(workspace.cache, workspace.root, "0123456789abcdef", values)
    with closing(open_history(workspace.cache)) as database:
        assert database.write(("UPDATE revisions SET at = ?", [(21.5,)]))

    assert workspace.run("history", "//m:a", "--plot", "plot.svg").code == 0
    texts, _ = drawn(workspace.root / "plot.svg")
    panels = [text for text in texts if text and text.startswith("(cpu)")]
    assert panels == ["(cpu) size (MiB)", "(cpu) total time (min)", "(cpu) largest memory (MiB)"]
    assert "0123456" in texts
    assert "1970-01-01" in texts
    numbers = [text for text in texts if text and not text.startswith(("//", "(", "0123", "1970"))]
    assert len(numbers) >= 6
    assert all(len(text) <= 5 for text in numbers), numbers

    assert workspace.run("history", "//m:a", "--plot", "plot.svg", "--parts").code == 0
    texts, _ = drawn(workspace.root / "plot.svg")
    assert [text for text in texts if text and text.startswith("(cpu)")][:3] == panels
    assert len([text for text in texts if text and text.startswith("(cpu)#")]) == 14
    picture = ElementTree.parse(workspace.root / "plot.svg").getroot()
    width, height = (float(picture.get(side, "").removesuffix("pt")) for side in ("width", "height"))
    assert height < 3 * width


@pytest.mark.filterwarnings("error")
def test_any_finite_values_are_drawn(tmp_path: Path) -> None:
    several = [[0.0], [0.0, 0.0], [-1.0, 2.0], [1e-9, 1e-9], [1e300, 1.0], [2e6, 3e6], [5.0, 5.0, 5.001]]
    names = ["bytes", "seconds", "latency_ms", "own"]
    panels = [
        Panel("//m:a", name, [Point(float(at), value, "") for at, value in enumerate(values)])
        for name in names
        for values in several
    ]
    write_plot(tmp_path / "plot.svg", "//m:a", panels, {})
    titles = drawn(tmp_path / "plot.svg")[0]
    assert all(any((text or "").startswith(name) for text in titles) for name in ("size", "time", "latency", "own"))


def test_a_plot_without_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(EnvironmentProblem, match=r"'matplotlib', which is not installed; install modelbuild\[plot\]$"):
        write_plot(tmp_path / "plot.svg", "//m:a", [Panel("//m:a", "bytes", [Point(0.0, 1.0, "")])], {})
