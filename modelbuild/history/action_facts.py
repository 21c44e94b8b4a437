"""The stored facts of an action: the contents of its key, the makers of its inputs, and its outputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Action, DerivedArtifact
from modelbuild.code.step_sources import StepCode
from modelbuild.execution.scheduler import Scheduler
from modelbuild.store.digests import value_digest

if TYPE_CHECKING:
    from modelbuild.analysis.analyze import Analyzer

VERSION = 1


@dataclass(frozen=True, slots=True)
class Facts:
    """One action in one build: JSON values only.

    status    ran, cached or failed; `absent` if it was only looked up and is in no cache
    material  see modelbuild.execution.keys
    modules   SHA-256 of each module of the step, by import name
    makers    maker of each input, in the order of `material["inputs"]`: an action's id, or '' for a file of the
              workspace
    outputs   digest of each output by name
    place     the worker and its durations (see modelbuild.actions.Place); empty for a local run
    """

    id: str
    owner: str
    mnemonic: str
    key: str
    status: str
    seconds: float
    material: Mapping[str, Any]
    modules: Mapping[str, str]
    makers: tuple[str, ...]
    outputs: Mapping[str, str] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)


def gather(graph: ActionGraph, scheduler: Scheduler, code: StepCode, missing: str = "failed") -> dict[str, Facts]:
    """Return the facts of every action with a known key; `missing` is the status of actions without a result."""
    report = scheduler.report
    found = {}
    for name, key in report.keys.items():
        action = graph.nodes[name]
        assert isinstance(action, Action)
        result = report.results.get(name)
        status = report.statuses.get(name, missing)
        found[name] = Facts(
            id=name,
            owner=action.owner,
            mnemonic=action.mnemonic,
            key=key,
            status=status,
            seconds=round(result.seconds, 3) if result and status == "ran" else 0.0,
            material=report.materials[name],
            modules=code.modules(*action.modules),
            makers=tuple(_maker(scheduler, action)),
            outputs={output: value_digest(value) for output, value in result.outputs} if result else {},
            place=asdict(report.places[name]) if name in report.places else {},
        )
    return found


def _maker(scheduler: Scheduler, action: Action) -> Iterable[str]:
    for item in action.inputs:
        artifact = scheduler.values.resolve(item.artifact)
        yield artifact.action if isinstance(artifact, DerivedArtifact) else ""


def dump(facts: Iterable[Facts], attributes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return facts and targets' attributes as the text of a file for `explain --against`."""
    return json.dumps(
        {"version": VERSION, "actions": [asdict(each) for each in facts], "targets": attributes}, sort_keys=True
    )


def attributes_of(analyzer: Analyzer) -> dict[str, dict[str, Any]]:
    """Return each analysed target as its `rule`, its `attributes` with defaults, and the targets that it `needs`."""
    found = {}
    for target in analyzer.targets.values():
        node = str(target.node if target.configured else target.node.label)
        needs = [str(n if analyzer.targets[n].configured else n.label) for n in analyzer.dependencies[target.node]]
        attributes = target.attrs.model_dump(mode="json", by_alias=True)
        found[node] = {"rule": target.rule, "attributes": attributes, "needs": sorted(set(needs))}
    return found
