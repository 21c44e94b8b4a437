"""Names of operators, and the ATen operators that operators of executorch's edge dialect stand for: views instead of
copies of views (`view_copy`), and operators without dimension order instead of dim-order operators."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

_OTHERWISE = {
    # view_copy also takes tensors that have no view of that shape.
    aten.view_copy.default: aten.reshape.default,
}
_WITHOUT_ORDER = {
    "_to_dim_order_copy": aten._to_copy.default,
    "_clone_dim_order": aten.clone.default,
    "_empty_dim_order": aten.empty.memory_format,
}


def aten_operator(target: Any) -> Any:
    """Return the ATen operator of an edge operator. Any other target is returned unchanged."""
    operator = getattr(target, "_op", target)
    if not isinstance(operator, torch._ops.OpOverload):
        return target
    if operator in _OTHERWISE:
        return _OTHERWISE[operator]
    packet = operator._schema.name.partition("::")[2]
    if operator.namespace == "dim_order_ops":
        return _WITHOUT_ORDER.get(packet, operator)
    if torch.Tag.view_copy in operator.tags or packet.endswith("_copy"):
        view = getattr(aten, packet.removesuffix("_copy"), None) if packet.endswith("_copy") else None
        found = getattr(view, operator._overloadname, None)
        if found is not None and _is_view(found):
            return found
    return operator


def _is_view(operator: Any) -> bool:
    returned = operator._schema.returns
    return bool(returned) and any(r.alias_info is not None and not r.alias_info.is_write for r in returned)


def operator_names() -> set[str]:
    """Return all registered operators of torch, as `aten.add.Tensor`."""
    names = (name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names())
    return {name if name.count(".") == 2 else f"{name}.default" for name in names}
