"""Graphs of a serialized program, as JSON and back: nodes, their results, and graphs nested in them.

Private names used, checked on torch 2.14.0: torch._subclasses.FakeTensorMode. Not patched.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from modelbuild_rules.model.steps.exported.symbols import SYMBOLIC, SymbolReader, SymbolWriter
from modelbuild_rules.model.steps.exported.values import read_operator, read_value, write_operator, write_value

Json = Any
# Annotations that change how a node is lowered. All other annotations are debug information and are dropped.
_KEPT_META = ("constant_tag", "custom")
_ASSERTIONS = ("aten._assert_scalar.default", "aten._assert_async.msg", "aten._assert_tensor_metadata.default")


class GraphWriter:
    """Write graphs that share symbols. `canonical` also renames nested graphs and their nodes by order."""

    def __init__(self, symbols: SymbolWriter, canonical: bool) -> None:
        self._symbols = symbols
        self._canonical = canonical

    def write(self, module: torch.fx.GraphModule, names: Mapping[str, str], without: Container[str] = ()) -> Json:
        """Return a graph as JSON, with nodes renamed by `names` and without the nodes in `without`. Raises ValueError
        for a node or value that the format lacks."""
        nodes: list[Json] = []
        graphs: dict[str, Json] = {}
        for node in [each for each in module.graph.nodes if each.name not in without]:
            entry: dict[str, Json] = {"name": names.get(node.name, node.name), "op": node.op}
            if node.op == "call_function":
                entry["target"] = write_operator(node.target)
                entry["args"] = self._arguments(node.args, names, entry["target"])
                if node.kwargs:
                    entry["kwargs"] = write_value(dict(node.kwargs), lambda n: {"node": names.get(n.name, n.name)})
            elif node.op == "get_attr":
                entry["target"] = self._nested(module, node.target, graphs)
            elif node.op == "output":
                entry["args"] = self._arguments(node.args, names, "output")
            elif node.op != "placeholder":
                raise ValueError(f"a graph contains a {node.op} node, '{node.name}'")
            if node.op in ("call_function", "placeholder"):
                entry["val"] = self._result(node.meta.get("val"))
            entry |= {k: write_value(node.meta[k], _no_nodes) for k in _KEPT_META if node.meta.get(k)}
            nodes.append(entry)
        return {"nodes": nodes, "graphs": graphs}

    def _arguments(self, args: tuple[Any, ...], names: Mapping[str, str], target: str) -> Json:
        if self._canonical and target in _ASSERTIONS:  # their messages name symbols and nodes
            args = tuple("" if isinstance(a, str) else a for a in args)
        return [write_value(a, lambda n: {"node": names.get(n.name, n.name)}) for a in args]

    def _nested(self, module: torch.fx.GraphModule, target: str, graphs: dict[str, Json]) -> str:
        inner = getattr(module, target, None)
        if not isinstance(inner, torch.fx.GraphModule):
            raise ValueError(f"a graph refers to '{target}', which is not a graph")
        name = f"g{len(graphs)}" if self._canonical else target
        graphs[name] = self.write(inner, canonical_names(inner.graph) if self._canonical else {})
        return name

    def _result(self, value: Any) -> Json:
        """Return a node's result as JSON; a tensor is {"tensor": [dtype, shape, stride, device or null, offset]}."""
        if isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            device = None if value.device.type == "cpu" else str(value.device)
            shape, stride = ([self._result(n) for n in sizes] for sizes in (value.shape, value.stride()))
            return {"tensor": [dtype, shape, stride, device, self._result(value.storage_offset())]}
        if isinstance(value, SYMBOLIC):
            written = self._symbols.write(value)
            return written if isinstance(written, (bool, int)) else {type(value).__name__: written}
        if isinstance(value, (list, tuple)):
            items = [self._result(v) for v in value]
            return items if isinstance(value, list) else {"tuple": items}
        return write_value(value, _no_nodes)


class GraphReader:
    """Read graphs from JSON. Their results are fake tensors of one mode."""

    def __init__(self, symbols: SymbolReader) -> None:
        self._symbols = symbols
        self._mode = FakeTensorMode(
            allow_fallback_kernels=False, allow_non_fake_inputs=True, shape_env=symbols.env, export=True
        )

    def read(self, written: Json) -> tuple[torch.nn.Module, torch.fx.Graph]:
        """Return a graph, and the module that contains the graphs nested in it."""
        root = torch.nn.Module()
        for name, inner in written["graphs"].items():
            root.add_module(name, torch.fx.GraphModule(*self.read(inner)))
        graph = torch.fx.Graph()
        nodes: dict[str, torch.fx.Node] = {}
        for entry in written["nodes"]:
            node = nodes[entry["name"]] = self._node(graph, entry, nodes)
            node.name = entry["name"]
            if "val" in entry:
                node.meta["val"] = self._result(entry["val"])
                if bindings := self._symbols.bindings(node.meta["val"]):
                    node.meta["unbacked_bindings"] = bindings
            node.meta.update({k: read_value(entry[k], nodes.__getitem__) for k in _KEPT_META if k in entry})
        output = graph.output_node()
        output.meta["val"] = torch.fx.node.map_arg(output.args[0], lambda n: n.meta.get("val"))
        return root, graph

    def _node(self, graph: torch.fx.Graph, entry: Json, nodes: Mapping[str, torch.fx.Node]) -> torch.fx.Node:
        name = entry["name"]
        args = tuple(read_value(a, nodes.__getitem__) for a in entry.get("args", ()))
        match entry["op"]:
            case "call_function":
                kwargs = read_value(entry.get("kwargs", {"dict": []}), nodes.__getitem__)
                return graph.create_node("call_function", read_operator(entry["target"]), args, kwargs, name=name)
            case "get_attr":
                return graph.create_node("get_attr", entry["target"], name=name)
            case "placeholder":
                return graph.create_node("placeholder", name, name=name)
            case "output":
                return graph.output(args[0])
        raise ValueError(f"'{entry['op']}' is not a kind of node")

    def _result(self, written: Json) -> Any:
        if isinstance(written, list):
            return [self._result(v) for v in written]
        if not isinstance(written, dict):
            return written
        ((kind, value),) = written.items()
        match kind:
            case "tensor":
                return self._tensor(*value)
            case "SymInt":
                return self._symbols.integer(value)
            case "SymFloat":
                return self._symbols.float(value)
            case "SymBool":
                return self._symbols.boolean(value)
            case "tuple":
                return tuple(self._result(v) for v in value)
        return read_value(written, lambda name: None)

    def _tensor(self, dtype: str, shape: Json, stride: Json, device: str | None, offset: Json) -> Any:
        sizes, strides, start = self._result(shape), self._result(stride), self._result(offset)
        with self._mode:
            if isinstance(start, int) and start == 0:
                return torch.empty_strided(sizes, strides, dtype=getattr(torch, dtype), device=device or "cpu")
            span = start + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
            flat = torch.empty(span, dtype=getattr(torch, dtype), device=device or "cpu")
            return flat.as_strided(sizes, strides, start)


def canonical_names(
    graph: torch.fx.Graph, constants: Container[str] = (), same: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return names by order: c0, c1, ... for placeholders in `constants`, x0, ... for other placeholders, n0, ... for
    other nodes. `same` maps a node to another whose name it gets."""
    names: dict[str, str] = {}
    count = {"x": 0, "c": 0, "n": 0}
    for node in graph.nodes:
        if node.name in same:
            names[node.name] = names[same[node.name]]
            continue
        prefix = "n" if node.op != "placeholder" else "c" if node.name in constants else "x"
        names[node.name] = f"{prefix}{count[prefix]}"
        count[prefix] += 1
    return names


def _no_nodes(node: torch.fx.Node) -> Json:
    raise ValueError(f"a graph contains the node '{node.name}' as data; expected a constant")
