"""Programs that are compiled for the CUDA delegate and run: name -> model, inputs of some calls, tolerance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 10), nn.Softmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Cnn(nn.Module):
    """Convolution, batch normalization with other than its first statistics, pooling, strides."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.third, self.head = (
            nn.Conv2d(16, 32, 3, 2, 1, bias=False),
            nn.Conv2d(32, 64, 1),
            nn.Linear(64, 10),
        )
        self.norm.running_mean.uniform_(-0.5, 0.5)
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(F.relu(self.third(F.relu(self.second(x)))).mean((2, 3)))


class Depthwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.deep, self.point = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(self.point(F.relu(self.deep(x))))


class Products(nn.Module):
    """Convolutions and a matrix product in each form of the template: taps together, several groups, a split depth,
    channels that no tile divides; a depthwise convolution with two outputs for each channel, dilated; and patches."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 64, 3, padding=1, groups=2),
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
            nn.SiLU(),
            nn.Conv2d(64, 128, (3, 5), padding=(2, 2), dilation=(2, 1), groups=64),
            nn.Conv2d(128, 40, 1),
            nn.Conv2d(40, 24, (1, 3)),
        )
        self.linear = nn.Linear(24 * 8 * 6, 10)
        self.patches = nn.Conv2d(3, 20, (4, 2), (4, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        images = self.images(x)
        return images, self.linear(images.flatten(1)), self.patches(x)


class Attention(nn.Module):
    def __init__(self, size: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, size = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        made = F.scaled_dot_product_attention(*parts.unbind(0))
        return self.out(made.transpose(1, 2).reshape(batch, length, size))


class Attentions(nn.Module):
    """Attention with masks, to later tokens, of shared keys, of heads of 24 and 40, between two sequences, and of
    nn.MultiheadAttention, with the batch inside."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(48, 120), nn.Linear(48, 240)
        banned = torch.zeros(1, 1, 20, 33)
        banned[..., 20:], banned[:, :, 3] = torch.finfo(torch.float32).min, torch.finfo(torch.float32).min
        self.register_buffer("banned", banned)
        self.layer = nn.MultiheadAttention(48, 3, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        q = self.q(x).unflatten(2, (3, 40)).transpose(1, 2)
        k, v = (each.unflatten(2, (3, 40)).transpose(1, 2) for each in self.kv(y).chunk(2, 2))
        shared = q.reshape(2, 20, 5, 24).transpose(1, 2)
        allowed = (y[..., 0] > -1)[:, None, None, :].expand(2, 1, 20, 33) & (x[..., :1] > -0.5)[:, None]
        attend = F.scaled_dot_product_attention
        return (
            attend(q, k, v),
            attend(q, k, v, self.banned, scale=0.3),
            attend(q, k, v, allowed),  # of some queries, no key is allowed
            attend(shared, shared[:, :1], shared[:, 1:2, :, :16], is_causal=True, enable_gqa=True),
            self.layer(x, x, x, need_weights=False)[0],
        )


class Vit(nn.Module):
    """A small vision transformer."""

    def __init__(self, size: int = 64, depth: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 8, 8)
        self.places = nn.Parameter(torch.randn(1, 16, size) * 0.1)
        self.attend = nn.ModuleList(Attention(size) for _ in range(depth))
        self.mix = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(depth))
        self.head = nn.Linear(size, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for norm, attend, mix in zip(self.norms, self.attend, self.mix, strict=True):
            x = x + attend(norm(x))
            x = x + mix(x)
        return self.head(x.mean(1))


class ClassToken(nn.Module):
    """The start of a vision transformer with a class token. The kernel of the matrix product concatenates the token
    with the patches, and normalizes these rows. There are 37, which no tile divides."""

    def __init__(self, size: int = 192) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(4, size, 4, 4, groups=2), nn.LayerNorm(size)
        self.token = nn.Parameter(torch.randn(1, 1, size))
        self.places = nn.Parameter(torch.randn(1, 37, size))
        self.layer = nn.Linear(size, 64)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.layer(self.norm(x))


class Block(nn.Module):
    """Of a ResNet."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.second, self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        same = stride == 1 and before == after
        self.skip = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.two(self.second(F.relu(self.one(self.first(x))))) + self.skip(x))


class Resnet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
        self.blocks = nn.Sequential(*(Block(a, b, 1 if a == b else 2) for a, b in pairwise(widths)))
        self.head = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


class Cache(nn.Module):
    """Keeps a state from one call to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(4, 8))
        self.register_buffer("table", torch.arange(32.0).reshape(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.state.add_(x)
        return self.state * self.table + torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8], device=x.device)


class Convolutions(nn.Module):
    """Convolutions of a line, with a dilation, transposed, and several of these; some are in groups."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Sequential(nn.Conv1d(4, 8, 5, 2, 3), nn.ReLU(), nn.Conv1d(8, 8, 1))
        self.groups = nn.Conv1d(8, 8, 3, padding=4, dilation=4, groups=8)
        self.apart = nn.Conv2d(1, 4, 3, (1, 2), 2, 2)
        self.up = nn.Sequential(nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=2), nn.ReLU(), nn.ConvTranspose2d(4, 3, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.apart(self.groups(self.line(x)).unsqueeze(1)))


class Convolutions3d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.point = nn.Conv3d(3, 8, 3, padding=1), nn.Conv3d(8, 4, 1)
        self.apart, self.up = nn.Conv3d(4, 4, 2, dilation=(1, 2, 1)), nn.ConvTranspose3d(4, 4, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.apart(self.point(F.relu(self.first(x)))))


class Stream(nn.Module):
    """Keeps the end of its input for the next call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("before", torch.zeros(1, 4, 6))
        self.layer = nn.Conv1d(4, 8, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((self.before, x), -1)
        self.before.copy_(x[..., -6:])
        return self.layer(x)


class Spectrum(nn.Module):
    """A mel spectrogram, and a rotation of pairs by a complex buffer: complex numbers inside."""

    def __init__(self, n_fft: int = 400) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", torch.rand(n_fft // 2 + 1, 20) / n_fft)
        self.register_buffer("turns", torch.polar(torch.ones(10), torch.arange(10.0)))

    def forward(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        spectrum = torch.stft(wave, self.n_fft, self.n_fft // 2, window=self.window, return_complex=True)
        mel = spectrum.abs().square().transpose(1, 2) @ self.filters
        turned = torch.view_as_complex(mel.reshape(*mel.shape[:-1], 10, 2)) * self.turns
        return torch.log(mel + 1e-5), torch.view_as_real(turned).flatten(2)


class Denoised(nn.Module):
    """Scales a spectrum, and returns to the signal."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))

    def forward(self, wave: Tensor) -> Tensor:
        spectrum = torch.stft(wave, 64, 16, window=self.window, return_complex=True)
        gate = torch.sigmoid(spectrum.abs() - 0.1)
        return torch.istft(spectrum * gate, 64, 16, window=self.window)


class Sums(nn.Module):
    """Sums by index, and the maxima of bags, which Inductor leaves to libtorch."""

    def __init__(self) -> None:
        super().__init__()
        self.sums, self.means = nn.EmbeddingBag(8, 5), nn.EmbeddingBag(8, 5, mode="mean")
        self.maxima = nn.EmbeddingBag(8, 5, mode="max", padding_idx=1)

    def forward(self, x: Tensor, i: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
        x = x / 2  # a partition's inputs are in the order of use
        index = i.unsqueeze(1).expand(-1, x.shape[1])
        return (
            x.scatter_reduce(0, index, x[: i.shape[0]], "mean"),
            x.scatter_reduce(0, index, x[: i.shape[0]], "mean", include_self=False),
            x.index_add(0, i, x[: i.shape[0]]),
            counts.scatter_add(0, i, i * 3),
            counts.index_add(0, i, i),
            torch.histc(x, 10, -1, 1),
            torch.histc(x, 7),
            self.sums(i, counts[:3]),
            self.means(i.reshape(2, -1)),
            self.maxima(i, counts[:3]),
        )


class Cell(nn.Module):
    """A recurrent net of few steps, and a cell in a loop. Their initial states are made of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.cell = nn.LSTM(16, 16, batch_first=True), nn.LSTMCell(16, 32)

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.net(x)
        state = (torch.zeros(x.shape[0], 32), torch.zeros(x.shape[0], 32))
        for step in range(x.shape[1]):
            state = self.cell(steps[:, step], state)
        return state[0]


class Larger(nn.Module):
    """Nearest neighbours, by a factor and to a size."""

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(F.interpolate(x, scale_factor=2), (9, 11))


class Topk(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.topk(x, 3)


class Sort(nn.Module):
    """A topk of integers that float32 does not have, a sort of rows with equal values, and a topk of many values of
    long columns."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        integers = torch.topk((x[:, :32] * 2**20).long() + 2**40, 5, largest=False)
        columns = x.view(4, -1, 2).transpose(0, 1)
        return *integers, *torch.sort((x * 4).floor(), stable=True), *torch.topk(columns, 100, dim=0)


class Norms(nn.Module):
    """Normalizations and poolings."""

    def __init__(self) -> None:
        super().__init__()
        self.group, self.instance = nn.GroupNorm(4, 16), nn.InstanceNorm2d(16, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        x = F.avg_pool2d(self.group(x), 3, 2, 1)
        return F.adaptive_avg_pool2d(self.instance(x), 2).flatten(1)


class Mixed(nn.Module):
    """Arithmetic on many types, indexing, scans and reductions."""

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        picked = x.index_select(0, i).cumsum(-1)
        return torch.where(picked > 0, picked.sin(), picked.exp()), (i * 3 // 2).to(torch.int32)


class Both(nn.Module):
    """Convolutions, which another backend can take, and operators around them. One parameter is unused."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 2, 1)
        self.register_buffer("scale", torch.rand(6, 1, 1) + 0.5)
        self.register_buffer("shift", torch.rand(2, 1, 1))
        self.unused = nn.Parameter(torch.rand(5))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cumsum(torch.sin(self.first(x)) * self.scale, -1)
        return torch.sin(self.second(x)) + self.shift


class Select(nn.Module):
    """How many results there are depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.sigmoid(self.layer(x)).amax(1)
        kept = torch.nonzero(scores > 0.6).squeeze(1)
        return x.index_select(0, kept), scores


class Branch(nn.Module):
    """A computation that depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > -1.3, lambda x: x.sin(), lambda x: x.cos(), (x * 2,)) + 1


def register() -> None:
    """Register the operators of detectors, which are in a program by name."""
    from modelbuild_rules.operators.steps import detection_operators

    detection_operators.register()


class Detector(nn.Module):
    """Boxes of the cells whose score is above a threshold, suppression by class, and layers on the kept regions."""

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__()
        register()
        self.threshold = threshold
        self.body = nn.Conv2d(3, 8, 3, 2, 1)
        self.sides, self.classes = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)
        self.head = nn.Sequential(nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6, 5))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        features = self.body(image).relu()
        left, up, right, down = self.sides(features).flatten(2)[0].abs() * 8
        scores, labels = self.classes(features).sigmoid().flatten(2)[0].t().max(1)
        cells = torch.arange(features.shape[2] * features.shape[3])
        y, x = cells // features.shape[3] * 2.0, cells % features.shape[3] * 2.0
        found = scores > self.threshold
        boxes = torch.stack([x - left, y - up, x + right, y + down], 1)[found]
        kept = torch.ops.modelbuild_kernels.batched_nms(boxes, scores[found], labels[found], 0.4)[:12]
        boxes, labels = boxes[kept], labels[found][kept]
        regions = torch.ops.torchvision.roi_align(features, F.pad(boxes, (1, 0)), 0.5, 3, 3, 2, False)
        return boxes, labels, self.head(regions), regions.mean((1, 2, 3)).cumsum(0)


class Suppression(nn.Module):
    """More boxes than torchvision moves apart by class, and boxes of equal scores."""

    def __init__(self) -> None:
        super().__init__()
        register()

    def forward(self, centers: Tensor, sizes: Tensor) -> tuple[Tensor, ...]:
        boxes = torch.cat([centers * 8, centers * 8 + sizes.abs() * 8], 1)
        classes = (sizes[:, 0] * 2).to(torch.int64)
        equal = torch.zeros_like(sizes[:64, 0])
        return (
            torch.ops.modelbuild_kernels.batched_nms(boxes, centers[:, 0], classes, 0.3),
            torch.ops.torchvision.nms(boxes[:64], equal, 0.5),
        )


class Regions(nn.Module):
    """Regions of two feature maps, one inside and one partly outside, and a convolution at moved points."""

    def __init__(self) -> None:
        super().__init__()
        register()
        self.offset, self.mask = nn.Conv2d(4, 36, 3, padding=1), nn.Conv2d(4, 18, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(6, 2, 3, 3))

    def forward(self, large: Tensor, small: Tensor, corners: Tensor) -> tuple[Tensor, ...]:
        boxes = torch.cat([corners * 9, corners * 9 + corners.flip(1).abs() * 20], 1)
        rois = F.pad(boxes[corners[:, 0] > -1], (1, 0))
        levels = (rois[:, 3] - rois[:, 1] > 10).to(torch.int64)
        image = large[:, :4]
        moved = torch.ops.torchvision.deform_conv2d(
            *(image, self.weight, self.offset(image) * 3, self.mask(image).sigmoid(), self.weight[:, 0, 0, 0]),
            *(1, 1, 1, 1, 1, 1, 2, 2, True),
        )
        return (
            torch.ops.modelbuild_kernels.multiscale_roi_align([large, small], rois, levels, [0.5, 0.25], 3, 4, 2),
            torch.ops.torchvision.roi_align(small, rois, 0.25, 2, 2, 3, True),
            moved,
        )


class Keypoints(nn.Module):
    """Peaks of heat maps, resized to the sides of counted regions: an infinity, a NaN, equal pixels and -inf."""

    def __init__(self) -> None:
        super().__init__()
        register()

    def forward(self, maps: Tensor, scores: Tensor, heights: Tensor, widths: Tensor) -> tuple[Tensor, Tensor]:
        special = torch.arange(4 * 3 * 35).reshape(4, 3, 7, 5)
        maps = torch.where(special == 17, torch.inf, torch.where(special == 200, torch.nan, maps))
        maps = torch.where(special // 35 == 7, 2.0, torch.where(special // 35 == 8, -torch.inf, maps))
        found = scores > -9
        peaks = torch.ops.modelbuild_kernels.bicubic_peaks(maps[found], heights[found], widths[found])
        none = torch.ops.modelbuild_kernels.bicubic_peaks(maps[scores > 9], heights[scores > 9], widths[scores > 9])
        return torch.nan_to_num(peaks, -5, 99, -99), none


class Distinct(nn.Module):
    """Different values of floats with NaN and zeros, of integers and of truth values, and of nothing."""

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        x = torch.where(x > 1, torch.nan, (x * 2).round())
        counted = torch.unique(x[x < 0], return_inverse=True, return_counts=True)
        runs = torch.unique_consecutive(i.to(torch.int32) // 3, return_inverse=True, return_counts=True)
        nothing = torch.unique(x[x > 99].to(torch.float16), return_counts=True)
        return (
            *counted,
            *runs,
            *nothing,
            torch.unique(x.reshape(2, -1)).nan_to_num(7),
            torch.unique(i),
            torch.unique(i > 4),
        )


class Counted(nn.Module):
    """A number that is read as a size."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        count = (x > 0).sum().item()
        torch._check(count <= 40)
        return torch.arange(count) * 2, x.flatten()[:count].softmax(0)


class Rows(nn.Module):
    """Views of counted rows at offsets; some calls have no row."""

    def forward(self, scores: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
        boxes = boxes[scores > 1.5]
        clipped = torch.stack([boxes[:, 0::2].clamp(0, 1), boxes[:, 1::2].clamp(0, 2)], 2).reshape(-1, 4)
        return clipped, boxes[:, 1], boxes[1:].sum(0)


@dataclass(frozen=True)
class Program:
    """`tolerance` is of the greatest difference to eager mode, absolute."""

    model: Callable[[], nn.Module]
    shapes: Sequence[Sequence[int]]
    tolerance: float
    dtype: torch.dtype = torch.float32
    dynamic: Any = None
    calls: int = 1
    integers: Sequence[Sequence[int]] = field(default=())
    emulated: bool = True  # the interpreter has no bfloat16 products

    def make(self) -> tuple[ExportedProgram, list[list[Tensor]], list[list[Tensor]]]:
        """Return the exported program, and the inputs and expected outputs of each call; the same ones each time."""
        torch.manual_seed(0)
        module = self.model().to(self.dtype).eval()
        calls = []
        for _ in range(self.calls):
            given = [torch.randn(*shape).to(self.dtype) for shape in self.shapes]
            calls.append(given + [torch.tensor(each) for each in self.integers])
        with torch.no_grad():
            # A copy, for calls of the module change the buffers that the program begins with.
            exported = export(deepcopy(module), tuple(calls[0]), dynamic_shapes=self.dynamic)
            made = [module(*(each.clone() for each in call)) for call in calls]
        return exported, calls, [list(each) if isinstance(each, tuple) else [each] for each in made]


BATCH = ({0: Dim("batch", min=1, max=64)},)
LENGTH = ({1: Dim("length", min=2, max=64)},)
HALF = 2e-3
PROGRAMS = {
    "mlp": Program(Mlp, [(32, 64)], 1e-5),
    "mlp_dynamic": Program(Mlp, [(32, 64)], 1e-5, dynamic=BATCH),
    "mlp_fp16": Program(Mlp, [(32, 64)], HALF, torch.float16),
    "mlp_bf16": Program(Mlp, [(32, 64)], 1e-2, torch.bfloat16, emulated=False),
    "cnn": Program(Cnn, [(4, 3, 32, 32)], 1e-4),
    "products": Program(Products, [(2, 3, 16, 16)], 1e-5),
    "depthwise": Program(Depthwise, [(1, 16, 32, 32)], 1e-5),
    "attention": Program(Attention, [(2, 32, 64)], 1e-5),
    "attention_fp16": Program(Attention, [(2, 32, 64)], HALF, torch.float16),
    "attention_bf16": Program(Attention, [(2, 32, 64)], 1e-2, torch.bfloat16, emulated=False),
    "attentions": Program(Attentions, [(2, 20, 48), (2, 33, 48)], 1e-5),
    "attention_dynamic": Program(Attention, [(2, 32, 64)], 1e-5, dynamic=LENGTH),
    "norms": Program(Norms, [(2, 16, 16, 16)], 1e-5),
    "mixed": Program(Mixed, [(8, 40)], 1e-5, integers=[[5, 0, 7, 2]]),
    "cell": Program(Cell, [(2, 3, 16)], 1e-5),
    "cache": Program(Cache, [(4, 8)], 1e-5, calls=3),
    "convolutions": Program(Convolutions, [(2, 4, 20)], 1e-5),
    "convolutions_3d": Program(Convolutions3d, [(1, 3, 4, 6, 5)], 1e-5),
    "stream": Program(Stream, [(1, 4, 5)], 1e-5, calls=3),
    "spectrum": Program(Spectrum, [(1, 1200)], 1e-4),
    "denoised": Program(Denoised, [(1, 400)], 1e-4),
    "sums": Program(Sums, [(8, 3)], 1e-5, integers=[[5, 0, 7, 2, 2, 2], [0, 2, 2, 9, 9, 9, 9, 9]]),
    "larger": Program(Larger, [(1, 4, 5, 5)], 0.0),
    "topk": Program(Topk, [(4, 64)], 0.0),
    "sort": Program(Sort, [(4, 10000)], 0.0),
    "vit": Program(Vit, [(1, 3, 32, 32)], 1e-4),
    "class_token": Program(ClassToken, [(1, 4, 24, 24)], 1e-5),
    "resnet18": Program(Resnet18, [(1, 3, 224, 224)], 1e-4),
    "select": Program(Select, [(24, 16)], 1e-5),
    "branch": Program(Branch, [(5,)], 1e-6, calls=4),
    "both": Program(Both, [(1, 3, 8, 8)], 1e-4),
    "detector": Program(Detector, [(1, 3, 16, 16)], 1e-5, calls=2),
    "nothing_found": Program(lambda: Detector(2.0), [(1, 3, 16, 16)], 1e-5),
    "suppression": Program(Suppression, [(1010, 2), (1010, 2)], 0.0),
    "regions": Program(Regions, [(1, 5, 12, 16), (1, 5, 6, 8), (9, 2)], 1e-4),
    "keypoints": Program(Keypoints, [(4, 3, 7, 5), (4,)], 2e-5, integers=[[9, 1, 31, 14], [6, 40, 5, 70]], calls=2),
    "distinct": Program(Distinct, [(24,)], 0.0, integers=[[5, 5, 0, 9, 9, 2, 5, 1]], calls=2),
    "rows": Program(Rows, [(6,), (6, 4)], 1e-6, calls=4),
    "counted": Program(Counted, [(5, 8)], 1e-6, calls=3),
}
