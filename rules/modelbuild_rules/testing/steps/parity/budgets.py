"""Check a program's budgets: size, delegation, latency relative to a baseline, and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from modelbuild.step import Step
from modelbuild_rules.testing.steps.test_report import Case

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import DelegationDocument, NodeDelegation

_SLOWER, _SLOWER_MS = 1.2, 0.2
"""The factor and the milliseconds by which a program must be slower for a note."""

_RUNS = 10
_WARM_UPS = 3


def median_ms(work: Callable[[], Any]) -> float:
    """Return the median milliseconds of 10 calls after 3 warm-up calls, as the runtime measures."""
    times = []
    for number in range(_WARM_UPS + _RUNS):
        began = time.perf_counter_ns()
        work()
        if number >= _WARM_UPS:
            times.append((time.perf_counter_ns() - began) / 1e6)
    return median(times)


def of_tested_methods(step: Step, delegation: DelegationDocument) -> DelegationDocument:
    """Return the nodes and partitions of the test's method, or else of all methods that it calls. Nodes of a program
    with one model name no method."""
    methods = [step.params["method"]] if "method" in step.params else list(step.params["methods"])
    nodes = [node for node in delegation["nodes"] if node.get("method", methods[0]) in methods]
    own = {node.get("partition") for node in nodes}
    return {
        **delegation,
        "nodes": nodes,
        "partitions": [each for each in delegation["partitions"] if each["id"] in own],
    }


def budget_cases(
    budgets: Mapping[str, float],
    backends: Mapping[str, str],
    delegation: DelegationDocument,
    measures: dict[str, float],
) -> list[Case]:
    """Return a case per budget and per expected backend. Adds `delegates` and `delegated_fraction` to `measures`."""
    nodes = delegation["nodes"]
    taken = sum(node.get("partition") is not None for node in nodes)
    measures["delegates"] = len(delegation["partitions"])
    measures["delegated_fraction"] = taken / len(nodes) if nodes else 0.0
    found = {
        "limits.bytes": ("bytes", measures["bytes"]),
        "limits.partitions": ("partitions", measures["delegates"]),
        "limits.delegated": ("of the nodes are delegated", measures["delegated_fraction"]),
        "latency.ratio": ("times the baseline's latency", _ratio(measures)),
        "limits.memory": ("bytes of memory", measures.get("memory", 0.0)),
    }
    cases = []
    for name, limit in budgets.items():
        what, value = found[name]
        least = name == "limits.delegated"
        good = value >= limit if least else value <= limit
        bound = "at least" if least else "at most"
        message = "" if good else f"{value:.6g} {what}, expected {bound} {limit:.6g}"
        cases.append(Case(name, "passed" if good else "failed", message=message))
    return cases + [_backend_case(module, backend, nodes) for module, backend in backends.items()]


def slower_than_eager(measures: Mapping[str, float]) -> str:
    """Return a note on a program that is slower than eager PyTorch by more than measurements vary; else ''."""
    if "eager_ms" not in measures:
        return ""
    program, eager = measures["latency_ms"], measures["eager_ms"]
    if program < max(_SLOWER * eager, eager + _SLOWER_MS):
        return ""
    return f"slower than eager PyTorch: {program:.3g} ms instead of {eager:.3g} ms"


def estimated_cases(step: Step, delegation: DelegationDocument) -> list[Case]:
    """Return the case of the limit of the estimated latency, if the test has one."""
    if "estimated" not in step.params:
        return []
    limit, estimates = step.params["estimated"], delegation.get("estimates", {})
    method = step.params.get("method") or next(iter(step.params["methods"]))
    estimate = estimates.get(method) if len(estimates) > 1 else next(iter(estimates.values()), None)
    name = "latency.max (estimated)"
    if estimate is None or estimate["unknown"]:
        unknown = ", ".join(estimate["unknown"]) if estimate else "every partition"
        return [Case(name, "failed", message=f"the time of {unknown} is unknown; expected on_device = true")]
    found = estimate["seconds"] * 1e3
    message = "" if found <= limit else f"{found:.4g} ms, expected at most {limit:.4g} ms"
    return [Case(name, "failed" if message else "passed", message=message)]


def _ratio(measures: Mapping[str, float]) -> float:
    return measures["latency_ms"] / measures["baseline_ms"] if measures.get("baseline_ms") else 0.0


def _backend_case(module: str, backend: str, nodes: Sequence[NodeDelegation]) -> Case:
    """Return the case that all nodes of a submodule are in the expected backend."""
    name = f"backend of {module}"
    own = [node for node in nodes if f"{node['module'] or ''}.".startswith(f"{module}.")]
    others = [node for node in own if node["backend"] != backend]
    if not own:
        return Case(name, "failed", message=f"no node of the lowered graph comes from '{module}'")
    if not others:
        return Case(name, "passed")
    first = others[0]
    why = "; ".join(f"{each['backend']}: {each['why']}" for each in first["refused"])
    message = f"{len(others)} of {len(own)} nodes are not in {backend}; for example, {first['name']} is in"
    return Case(name, "failed", message=f"{message} {first['backend']}" + (f" ({why})" if why else ""))
