"""The stored facts of an action: the contents of its key, the makers of its inputs, and its outputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from modelbuild.actions import Action, DerivedArtifact, Material, Place
from modelbuild.code.step_sources import StepCode
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.ids import ActionId, TargetId
from modelbuild.redaction import redacted, redacted_material
from modelbuild.store.digests import value_digest

if TYPE_CHECKING:
    from modelbuild.analysis.analyze import Analyzer

VERSION = 1


@dataclass(frozen=True, slots=True)
class ActionFacts:
    """One action in one build.

    status    ran, cached or failed; `absent` if it was only looked up and is in no cache
    material  see modelbuild.actions.Material
    modules   SHA-256 of each module of the step, by import name
    makers    maker of each input, in the order of `material["inputs"]`: an action's id, or '' for a file of the
              workspace
    outputs   digest of each output by name
    place     the worker and its durations (see modelbuild.actions.Place); None for a local run
    """

    id: ActionId
    owner: TargetId
    mnemonic: str
    key: str
    status: str
    seconds: float
    material: Material
    modules: Mapping[str, str]
    makers: tuple[str, ...]
    outputs: Mapping[str, str] = field(default_factory=dict)
    place: Place | None = None


def gather(scheduler: Scheduler, code: StepCode, missing: str = "failed") -> dict[str, ActionFacts]:
    """Return the facts of every action with a known key; `missing` is the status of actions without a result."""
    report = scheduler.report
    found = {}
    for name, key in report.keys.items():
        action = scheduler.graph.nodes[name]
        assert isinstance(action, Action)
        result = report.results.get(name)
        status = report.statuses.get(name, missing)
        found[name] = ActionFacts(
            id=action.id,
            owner=action.owner,
            mnemonic=action.mnemonic,
            key=key,
            status=status,
            seconds=round(result.seconds, 3) if result and status == "ran" else 0.0,
            material=redacted_material(report.materials[name]),
            modules=code.modules(*action.modules),
            makers=tuple(_maker(scheduler, action)),
            outputs={output: value_digest(value) for output, value in result.outputs} if result else {},
            place=report.places.get(name),
        )
    return found


def _maker(scheduler: Scheduler, action: Action) -> Iterable[str]:
    for item in action.inputs:
        artifact = scheduler.values.resolve(item.artifact)
        yield artifact.action if isinstance(artifact, DerivedArtifact) else ""


class TargetFacts(TypedDict):
    """An analysed target: its rule, its attributes with defaults, and the ids of targets that it needs."""

    rule: str
    attributes: dict[str, Any]
    needs: list[str]


def place_json(place: Place | None) -> dict[str, Any]:
    """Return a place as JSON for the history and dumps: empty for a local run."""
    return {} if place is None else asdict(place)


def dump(facts: Iterable[ActionFacts], attributes: Mapping[str, TargetFacts]) -> str:
    """Return facts and targets' attributes as the text of a file for `explain --against`."""
    actions = [{**asdict(each), "place": place_json(each.place)} for each in facts]
    return json.dumps({"version": VERSION, "actions": actions, "targets": attributes}, sort_keys=True)


def attributes_of(analyzer: Analyzer) -> dict[str, TargetFacts]:
    """Return each analysed target as its `rule`, its `attributes` with defaults, and the targets that it `needs`."""
    found: dict[str, TargetFacts] = {}
    for target in analyzer.targets.values():
        needs = {analyzer.targets[node].id for node in analyzer.dependencies[target.node]}
        attributes = redacted(target.attrs.model_dump(mode="json", by_alias=True))
        found[target.id] = {"rule": target.rule, "attributes": attributes, "needs": sorted(needs)}
    return found
