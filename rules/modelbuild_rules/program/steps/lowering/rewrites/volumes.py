"""Rewrite convolutions of volumes (three dimensions) to convolutions of images, which ExecuTorch's kernels and XNNPACK
have: the slices along the depth that one weight meets, or that one slice makes, become channels of an image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.nn.functional import conv2d, conv_transpose2d, pad

from modelbuild_rules.backend_api.steps.nodes import origin
from modelbuild_rules.program.steps.lowering.rewrites.inlining import inline, traced

aten = torch.ops.aten

_OPERATORS = (aten.conv3d.default, aten.conv3d.padding, aten.conv_transpose3d.input, aten.convolution.default)
_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "output_padding", "dilation", "groups")


def is_volume(node: Node) -> bool:
    """Return whether a node of an edge program is a convolution of volumes."""
    operator = getattr(node.target, "_op", node.target)
    return operator is aten.convolution.default and node.args[1].meta["val"].dim() == 5


def as_images(program: ExportedProgram, origins: Collection[str]) -> ExportedProgram:
    """Rewrite the convolutions of an ATen program that were made from the exported nodes `origins`. Return the program,
    which is changed."""
    found = [
        node for node in program.graph.nodes if node.target in _OPERATORS and (origin(node) or node.name) in origins
    ]
    found = [node for node in found if _arguments(node)["weight"].meta["val"].dim() == 5]
    flat = _flattened(program, found)
    for node in found:
        given = _arguments(node)
        tensors = [given.pop(name, None) for name in ("input", "weight", "bias")]
        inputs = [each for each in tensors if each is not None]
        form = _form(_transposed(node), flat.get(tensors[1]), given)
        (made,) = inline(program.graph, node, traced(form, node, inputs), inputs)
        node.replace_all_uses_with(made)
        program.graph_signature.replace_all_uses(node.name, made.name)
        program.graph.erase_node(node)
    program.graph_module.recompile()
    program.validate()
    return program


def _form(transposed: bool, depth: int | None, given: Mapping[str, Any]) -> Callable[..., Tensor]:
    """Return a convolution as a function of its tensors. `depth` is None for a weight of volumes."""
    convolved = _transposed_convolved if transposed else _convolved
    arguments = {name: value for name, value in given.items() if transposed or name != "output_padding"}

    def form(*tensors: Tensor) -> Tensor:
        x, weight, *bias = tensors
        flat = weight.flatten(1, 2) if depth is None else weight
        return convolved(x, flat, bias[0] if bias else None, depth or weight.shape[2], **arguments)

    return form


def _arguments(node: Node) -> dict[str, Any]:
    """Return the arguments of a convolution, by the schema's names."""
    schema = node.target._schema.arguments
    given = {argument.name: value for argument, value in zip(schema, node.args, strict=False)}
    given.update(node.kwargs)
    return {name: given[name] for name in _ARGUMENTS if name in given}


def _transposed(node: Node) -> bool:
    general = node.target is aten.convolution.default
    return bool(node.args[6]) if general else node.target is aten.conv_transpose3d.input


def _flattened(program: ExportedProgram, found: Collection[Node]) -> dict[Node, int]:
    """Store the weights that only these convolutions use as weights of images; return their depths. XNNPACK takes
    stored weights, but not computed weights."""
    depths = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind != InputKind.PARAMETER:
            continue
        node = next(each for each in program.graph.find_nodes(op="placeholder") if each.name == spec.arg.name)
        repeated = [each for each in program.graph_signature.input_specs if each.target == spec.target]
        if len(repeated) > 1 or not node.users or not all(_is_weight(node, user, found) for user in node.users):
            continue
        stored = program.state_dict[str(spec.target)]
        depths[node] = stored.shape[2]
        program.state_dict[str(spec.target)] = torch.nn.Parameter(stored.detach().flatten(1, 2), False)
        with node.meta["val"].fake_mode:
            node.meta["val"] = node.meta["val"].flatten(1, 2)
    return depths


def _is_weight(node: Node, user: Node, found: Collection[Node]) -> bool:
    """Return whether a user of a node is one of some convolutions and uses the node only as its weight."""
    if user not in found:
        return False
    given = _arguments(user)
    return given["weight"] is node and all(value is not node for name, value in given.items() if name != "weight")


def _convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    depth: int,
    stride: Any = (1,),
    padding: Any = (0,),
    dilation: Any = (1,),
    groups: int = 1,
) -> Tensor:
    """Return a convolution of volumes. `weight` has, for each input channel, `depth` channels of images."""
    if x.dim() == 4:
        return _convolved(x.unsqueeze(0), weight, bias, depth, stride, padding, dilation, groups).squeeze(0)
    step, space = _each(stride), _each(dilation)
    kernel = (depth, *weight.shape[2:])
    if isinstance(padding, str):
        around = [apart * (size - 1) * (padding == "same") for apart, size in zip(space, kernel, strict=True)]
        x = pad(x, [end for total in reversed(around) for end in (total // 2, total - total // 2)])
        padding = (0,)
    ends = _each(padding)
    x = x.transpose(1, 2)
    if ends[0]:
        x = pad(x, (0, 0, 0, 0, 0, 0, ends[0], ends[0]))
    count = (x.shape[1] - space[0] * (depth - 1) - 1) // step[0] + 1
    last = step[0] * (count - 1) + 1
    met = [x[:, first : first + last : step[0]] for first in range(0, depth * space[0], space[0])]
    images = met[0] if depth == 1 else torch.stack(met, 3).flatten(2, 3)
    made = conv2d(images.flatten(0, 1), weight, bias, step[1:], ends[1:], space[1:], groups)
    return made.unflatten(0, (x.shape[0], count)).transpose(1, 2)


def _transposed_convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    depth: int,
    stride: Any = (1,),
    padding: Any = (0,),
    output_padding: Any = (0,),
    groups: int = 1,
    dilation: Any = (1,),
) -> Tensor:
    """Return a transposed convolution of volumes. `weight` has, for each output channel, `depth` channels of images."""
    if x.dim() == 4:
        x = x.unsqueeze(0)
        return _transposed_convolved(x, weight, bias, depth, stride, padding, output_padding, groups, dilation).squeeze(
            0
        )
    step, space, ends, more = _each(stride), _each(dilation), _each(padding), _each(output_padding)
    count = x.shape[2]
    images = x.transpose(1, 2).flatten(0, 1)
    made = conv_transpose2d(images, weight, None, step[1:], ends[1:], more[1:], groups, space[1:])
    # From here: batch, slices, channels, depth of the weight, rows, columns.
    made = made.unflatten(0, (x.shape[0], count)).unflatten(2, (-1, depth))
    if step[0] == depth and space[0] == 1:
        whole = made.permute(0, 2, 1, 3, 4, 5).flatten(2, 3)  # the slices that each slice makes do not overlap
    else:
        shifts = [first * space[0] for first in range(depth)]
        slices = [_apart(made[:, :, :, at], step[0], by, shifts[-1] - by) for at, by in enumerate(shifts)]
        whole = sum(slices[1:], slices[0])
    last = whole.shape[2] - ends[0] + more[0]
    whole = pad(whole, (0, 0, 0, 0, 0, max(more[0] - ends[0], 0)))[:, :, ends[0] : last]
    return whole if bias is None else whole + bias.reshape(-1, 1, 1, 1)


def _apart(slices: Tensor, step: int, before: int, after: int) -> Tensor:
    """Return slices (batch, slices, channels, rows, columns) as volumes with zeros between and around."""
    spread = pad(slices.unsqueeze(2), (0, 0, 0, 0, 0, 0, 0, step - 1)).flatten(1, 2) if step > 1 else slices
    spread = spread[:, : step * (slices.shape[1] - 1) + 1]
    return pad(spread.transpose(1, 2), (0, 0, 0, 0, before, after))


def _each(numbers: Any) -> tuple[int, ...]:
    """Return a number for each dimension."""
    listed = tuple(numbers) if isinstance(numbers, (list, tuple)) else (numbers,)
    return listed * 3 if len(listed) == 1 else listed
