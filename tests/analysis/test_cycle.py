"""Cycles of thousands of targets: the shortest is shown, with few names, and soon."""

from __future__ import annotations

import time

from modelbuild.wording import chain_text
from tests.workspace_builder import Workspace

COUNT = 2000


def suites(edges: dict[int, list[int]]) -> str:
    texts = [f'[[test_suite]]\nname = "t{n}"\ntests = {[f":t{to}" for to in ends]}\n' for n, ends in edges.items()]
    return "".join(texts).replace("'", '"')


def test_a_long_cycle_is_one_short_line(workspace: Workspace) -> None:
    edges = {n: [(n + 1) % COUNT] for n in range(COUNT)}
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": suites(edges)})
    began = time.monotonic()
    (error,) = workspace.run("build", "-k", "//...").errors
    assert time.monotonic() - began < 30
    assert len(error) < 300
    assert error.endswith("... (1,991 more) ... -> //:t1996 -> //:t1997 -> //:t1998 -> //:t1999 -> //:t0"), error
    edges[0].append(1995)
    workspace.write({"BUILD.toml": suites(edges)})
    (error,) = workspace.run("build", "//:t0").errors
    chain = " -> ".join(f"//:t{n}" for n in (0, 1995, 1996, 1997, 1998, 1999, 0))
    assert error.endswith(f"dependency cycle: {chain}"), error


def test_a_long_chain_has_the_names_at_its_ends() -> None:
    assert chain_text(list("abcdefghij")) == "a -> b -> c -> d -> e -> f -> g -> h -> i -> j"
    assert chain_text(list("abcdefghijk")) == "a -> b -> c -> d -> e -> ... (1 more) ... -> g -> h -> i -> j -> k"
