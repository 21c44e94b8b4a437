"""The action graph: which action makes which artifact, and in which order actions run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from modelbuild.actions import Action, Artifact, DerivedArtifact, Expansion, SourceArtifact
from modelbuild.declarations import check_outputs, check_part, check_promises, check_source, kinds
from modelbuild.wording import chain_text

if TYPE_CHECKING:
    import networkx as nx


class ActionGraph:
    """Actions and expansions by id, and a directed acyclic graph of them. The graph grows while it is executed.

    complete   called with each declared action: returns it with the tools that its step imports, or raises
    """

    def __init__(self, complete: Callable[[Action], Action] = lambda action: action) -> None:
        self.nodes: dict[str, Action | Expansion] = {}
        self._complete = complete

    @cached_property
    def dag(self) -> nx.DiGraph[str]:
        """Return the graph: nodes are ids, edges lead from each maker to its readers. It is created on first use,
        because importing networkx takes 0.2 s and declaring actions or querying targets needs no graph."""
        import networkx as nx

        made: nx.DiGraph[str] = nx.DiGraph()
        made.add_nodes_from(self.nodes)
        made.add_edges_from((maker, name) for name in self.nodes for maker in self.makers(name))
        return made

    def add_action(self, action: Action) -> None:
        """Add an action. Raises ValueError for a second action with the same id, for outputs that overlap, and for
        inputs that no earlier declaration makes; so no declaration can close a cycle."""
        check_outputs(action)
        for artifact in action.error_text.reads if action.error_text is not None else ():
            self.check(artifact)
        self._add(self._complete(action))

    def add_expansion(self, expansion: Expansion) -> None:
        """Add an expansion. Raises ValueError as add_action() does."""
        check_promises(expansion)
        self._add(expansion)

    def _add(self, node: Action | Expansion) -> None:
        if self.nodes.setdefault(node.id, node) is not node:
            raise ValueError(f"{node.id} is declared twice; give one of them another name")
        for artifact in reads(node):
            self.check(artifact)
        if "dag" in self.__dict__:
            self.dag.add_node(node.id)
            self.dag.add_edges_from((maker, node.id) for maker in self.makers(node.id))

    def keep_promises(self, expansion: str, made: Iterable[Artifact], done: Container[str]) -> set[str]:
        """Add edges from the makers of the artifacts that fulfil an expansion's promises, and return the makers' ids.
        `done` contains the nodes that have finished; no cycle can lead through them.

        Raises ValueError for an artifact that is made from the promises.
        """
        makers: set[str] = {artifact.action for artifact in made if isinstance(artifact, DerivedArtifact)}
        seen = set(makers)
        waiting = list(makers)
        while waiting:
            name = waiting.pop()
            if name == expansion:
                cycle = chain_text(self._cycle(name, makers))
                raise ValueError(f"it fulfils a promise with an artifact that is made from it: {cycle}")
            if name not in done:
                new = set(self.dag.pred[name]) - seen
                seen |= new
                waiting += new
        self.dag.add_edges_from((maker, expansion) for maker in makers)
        return makers

    def _cycle(self, expansion: str, makers: Collection[str]) -> list[str]:
        import networkx as nx

        ways = nx.single_source_shortest_path(self.dag, expansion)
        return min((ways[maker] for maker in makers if maker in ways), key=len)

    def check(self, artifact: Artifact) -> None:
        """Raise ValueError for an artifact that no declared action or expansion makes, and PathError for an artifact
        outside the workspace or outside the folder that it is a part of."""
        if isinstance(artifact, SourceArtifact):
            check_source(artifact.path)
            return
        maker = self.nodes.get(artifact.action)
        if maker is None:
            raise ValueError(f"'{artifact.output}' of {artifact.action} is read, which is not declared")
        known = kinds(maker)
        if artifact.output not in known:
            expected = ", ".join(known) or "none"
            raise ValueError(f"{artifact.action} has no output '{artifact.output}'; expected one of: {expected}")
        if artifact.subpath:
            check_part(artifact, known[artifact.output])

    def makers(self, node: str) -> set[str]:
        """Return the ids of the nodes that make a node's declared inputs."""
        return {artifact.action for artifact in reads(self.nodes[node])}

    def basename(self, artifact: Artifact) -> str:
        """Return the last part of an artifact's path, as its action or expansion declared it."""
        if isinstance(artifact, SourceArtifact):
            return artifact.path.rpartition("/")[2]
        if artifact.subpath:
            return artifact.subpath.rpartition("/")[2]
        maker = self.nodes[artifact.action]
        if isinstance(maker, Expansion):
            return maker.names[maker.promises.index(artifact.output)].rpartition("/")[2]
        return next(o.path for o in maker.outputs if o.name == artifact.output).rpartition("/")[2]

    def is_promise(self, artifact: Artifact) -> bool:
        """Return whether an artifact's maker and name are unknown until an expansion has run."""
        return isinstance(artifact, DerivedArtifact) and isinstance(self.nodes[artifact.action], Expansion)

    def needed_for(self, artifacts: Iterable[Artifact], known: Container[str] = ()) -> set[str]:
        """Return the ids of all nodes that these artifacts depend on, except nodes in `known` and nodes that only
        `known` nodes need."""
        found: set[str] = {a.action for a in artifacts if isinstance(a, DerivedArtifact) and a.action not in known}
        waiting = list(found)
        while waiting:
            makers = {maker for maker in self.makers(waiting.pop()) if maker not in known} - found
            found |= makers
            waiting += makers
        return found


def reads(node: Action | Expansion) -> Iterator[DerivedArtifact]:
    """Yield the derived artifacts that an action or expansion reads."""
    if isinstance(node, Expansion):
        yield from node.reads
    else:
        for item in node.inputs:
            if isinstance(item.artifact, DerivedArtifact):
                yield item.artifact


def closure(names: set[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return these names and everything reachable from them along the edges."""
    found, waiting = set(names), list(names)
    while waiting:
        new = set(edges.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found
