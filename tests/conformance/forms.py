"""Kinds beside the database of operators: arguments, layers together, second calls, sizes, NaN and infinity.

A row is a name, a function of inputs or a module's class, the calls, tensors that the module owns, and dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.conformance.kinds import Call, Kind, Sizes, of_function

FORMS: dict[str, Kind] = {}


def form(
    name: str, made: Callable[..., Any], *calls: Call, own: Sequence[Tensor] = (), dynamic: Sizes | None = None
) -> None:
    """Add a kind. `made` is a function of inputs and of the tensors `own`, or makes a module."""
    make = made if isinstance(made, type) else of_function(made, own)
    FORMS[name] = Kind(name, make, calls, dynamic or {})


def n(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normally distributed numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def t(*values: Any, dtype: torch.dtype | None = None) -> Tensor:
    return torch.tensor(values, dtype=dtype)


NAN, INF = float("nan"), float("inf")
ODD = t(NAN, INF, -INF, -0.0, 1.0, -1.0, 1e4, -3.0)[None]
HALF, BYTE = torch.float16, torch.int8
STRIDES = t(8.0, 16.0)

# Views of an input before an operator, over several calls.
form(
    "view linear",
    lambda x, w: F.linear(x.flatten(1), w),
    (n(2, 3, 4),),
    (-n(2, 3, 4),),
    (n(2, 3, 4, seed=5),),
    own=[n(5, 12)],
)
form(
    "view embedding",
    lambda k, w: F.embedding(k.view(-1), w).sum(0),
    (t([0, 1, 2, 3]),),
    (t([3, 3, 2, 0]),),
    own=[n(6, 3)],
)
form("view mask", lambda m: m.view(1, 1, -1).logical_not(), (t(True, False),), (t(False, True),))
form("unsqueeze int", lambda k: k.unsqueeze(0) * 2, (torch.arange(6).view(2, 3),), (torch.arange(5, 11).view(2, 3),))


# An input that changes, and state that is no buffer.
class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.last
        self.last = x
        return y


class Count(nn.Module):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class Seen(nn.Module):
    """Keeps a tensor that no call reads, and counts calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        self.calls += 1
        return x * self.calls


def _zero_row(x: Tensor) -> Tensor:
    x[0] = 0.0
    return x + 1


form("input in place", lambda x: x.add_(1) * 2, (n(3, 4),), (n(3, 4, seed=1),))
form("input in place of a view", lambda x: (x.view(-1)[2:].mul_(2), x + 1), (n(3, 4),), (n(3, 4, seed=1),))
form("input in place by index", _zero_row, (n(3, 4),), (n(3, 4, seed=1),))
form("input as out", lambda x, y: torch.add(x, 1, out=y), (n(3, 4), n(3, 4)), (n(3, 4, seed=1), n(3, 4)))
form("input as statistics", lambda x, m, v: F.batch_norm(x, m, v, training=True), (n(6, 4), n(4), n(4).abs()))
form("parameter in place", lambda x, w: w.add_(x) * 2, (n(4),), (n(4, seed=1),), own=[n(4)])
form("buffer in place", lambda x, k: x * k.add_(1), (n(4),), (n(4, seed=1),), (n(4),), own=[torch.arange(4)])
form("state in attribute", Last, (n(4),), (n(4, seed=1),), (n(4, seed=2),))
form("counter in attribute", Count, (n(4),), (n(4, seed=1),))
form("state that nothing reads", Seen, (n(4),), (n(4, seed=1),), (n(4, seed=2),))

# Types.
form("adaptive_max_pool2d half", lambda x: F.adaptive_max_pool2d(x, 3), (n(1, 2, 9, 9, dtype=HALF),))
form("max_pool3d half", lambda x: F.max_pool3d(x, 2), (n(1, 2, 4, 4, 4, dtype=HALF),))
form("avg_pool3d int64", lambda x: F.avg_pool3d(x, 2), (torch.arange(64).view(1, 1, 4, 4, 4),))
form(
    "scatter_reduce bool",
    lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
    (t(True, False, False), t(1, 1), t(True, False)),
)

# Complex numbers.
form("rfft output", torch.fft.rfft, (n(2, 16),))
form("stft output", lambda x: (x, torch.stft(x, 8, return_complex=True)), (n(32),))
form("complex input", torch.abs, (torch.complex(n(3, 4), n(3, 4, seed=1)),))
form("fft of real", lambda x: torch.fft.fft(x).abs(), (n(4, 16),))
form("irfft inner", lambda x: torch.fft.irfft(x, 10, 1, "ortho"), (n(5, 6, 7),))

# Sizes.
form(
    "masked_select broadcast",
    lambda x, m: x.masked_select(m),
    (n(7), torch.ones(7, 7, dtype=torch.bool)),
    (n(7), torch.eye(7, dtype=torch.bool)),
)
form(
    "cat no rows",
    lambda x: F.layer_norm(x.flatten(0, 1), (4,)).sum() + F.layer_norm(torch.cat([x, x[..., :2]], -1), (6,)),
    (n(2, 3, 4),),
    (n(0, 3, 4),),
    dynamic={(0, 0): (0, 8)},
)
form("amax no rows", lambda x: x.amax(1), (n(2, 4),), (n(0, 4),), dynamic={(0, 0): (0, 8)})
form("slice far negative", lambda x: x[-100:3] + 1, (n(6, 2),))
form("pad negative", lambda x: F.pad(x, (-1, 1, -2, 0)), (n(1, 2, 6, 6),))
form("narrow_copy empty", lambda x: torch.narrow_copy(x, -1, 0, 0), (n(3, 4),))


def _checked(x: Tensor) -> Tensor:
    """Return a tensor, and check a number that many operators compute from it."""
    number = (x.long().flatten().cumsum(0)[-1] % 7).clamp(0, 5).item()
    torch._check(number + 1 != 9)
    return x


# Arguments.
form("full of a constant", lambda x: x * torch.full((3, 1), STRIDES[1]), (n(3, 4),))
form("layer_norm great mean", lambda x: F.layer_norm(x, (19,)), (30 + n(4, 19),))
form("layer_norm great mean half", lambda x: F.layer_norm(x, (19,)), (30 + n(4, 19).half(),))
for mean, scale, dtype in (
    (200, 0.5, torch.float32),
    (100, 1, HALF),
    (2000, 1, torch.bfloat16),
    (1e5, 1, torch.float64),
):
    given = ((mean + scale * n(4, 6, 40)).to(dtype), (mean - scale * n(4, 6, 40, seed=1)).to(dtype))
    for name, made in {
        "group_norm": lambda x: F.group_norm(x, 2),
        "instance_norm": F.instance_norm,
        "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
        "var": lambda x: (x.var(-1), x.var((0, 2), correction=0, keepdim=True)),
        "std_mean": lambda x: torch.std_mean(x, 1),
        "var_mean": lambda x: torch.var_mean(x, (0, 2)),
    }.items():
        form(f"{name} mean {mean} {str(dtype)[6:]}", made, *((each,) for each in given))
for dtype in (torch.float32, HALF, torch.bfloat16, torch.float64):
    given = [n(3, 4, 6, dtype=dtype), n(5, 4, 6, seed=1, dtype=dtype) - 3, n(1, 4, 6, seed=2, dtype=dtype)]
    given.append(torch.where(given[1] > -2, NAN, torch.where(given[1] < -4, INF, given[1])))
    form(
        f"moments of rows {str(dtype)[6:]}",
        lambda x: (F.group_norm(x, 2), F.instance_norm(x), F.layer_norm(x, (6,)), x.std((1, 2))),
        *((each,) for each in given),
        dynamic={(0, 0): (1, 6)},
    )
    form(
        f"sums of rows {str(dtype)[6:]}",
        lambda x: (x.cumsum(0), x.sum(0), x + 0.1, F.linear(x, x[:1, :2].sum(0) * 0 + 1)),
        *((each,) for each in given),
        dynamic={(0, 0): (1, 6)},
    )
for dtype in (torch.float32, HALF, torch.bfloat16, torch.float64):
    form(
        f"transposed weight {str(dtype)[6:]}",
        lambda x, w, b: (x @ w.T, torch.addmm(b, x, w.T).relu(), x[:, :5] @ w, F.linear(x, w, b)),
        *((each.to(dtype),) for each in (n(2, 8), ODD, n(0, 8), -n(5, 8), n(2, 8))),
        own=[n(5, 8, dtype=dtype), n(5, seed=1, dtype=dtype)],
        dynamic={(0, 0): (0, 8)},
    )
    form(
        f"products with NaN {str(dtype)[6:]}",
        lambda x, y, w: (x @ w, torch.bmm(y.expand(2, 8, 3), w.expand(2, 3, 4))),
        *((each.to(dtype)[:, :3], each.to(dtype).view(8, 1)) for each in (n(1, 8), ODD, -ODD, n(1, 8))),
        own=[n(3, 4, dtype=dtype)],
    )
form("var of great numbers", lambda x: (x * 1e20).std(1) / 1e20, (n(2, 40),))
form("var of small numbers", lambda x: (x * 1e-24).std(1) * 1e24, (n(2, 40),))

# Sums of many numbers, and numbers that float32 has not.
for dtype in (HALF, torch.bfloat16):
    form(f"linear deep {str(dtype)[6:]}", F.linear, (n(3, 4096).to(dtype), (n(5, 4096) / 64).to(dtype), n(5).to(dtype)))
    form(
        f"many products {str(dtype)[6:]}",
        lambda x, w: (F.conv2d(x, w, padding=1), F.conv_transpose2d(x[:, :4], w)),
        (n(1, 256, 6, 6).to(dtype), (n(4, 256, 3, 3) / 48).to(dtype)),
    )
    form(
        f"many terms {str(dtype)[6:]}",
        lambda x: (x.cumsum(1), torch.zeros_like(x).scatter_add(1, torch.zeros(2, 900, dtype=torch.int64), x)),
        (n(2, 900).to(dtype),),
    )
    form(
        f"pool of great numbers {str(dtype)[6:]}", lambda x: F.avg_pool2d(x, 16), ((2000 + n(1, 3, 32, 32)).to(dtype),)
    )
    form(
        f"number as divisor {str(dtype)[6:]}",
        lambda x: (x % 0.7, torch.fmod(x, 0.7), torch.div(x, 0.7, rounding_mode="trunc"), x // 0.7),
        ((500 * n(30)).to(dtype),),
    )
form(
    "digits of float64",
    lambda x: (x + 1.001, x.sum(1), x.logsumexp(1), F.layer_norm(x, (40,)), F.cosine_similarity(x, x.flip(0))),
    (n(4, 40, dtype=torch.float64) + 0.1,),
)
LONG = t(2**53 + 1, -(2**53) - 1, 2**62 + 1, 3037000501, -70000, 3, -7, 0, 1, -1)
for dtype in (torch.int64, torch.int32, torch.int16, BYTE, torch.uint8):
    given = (LONG.to(dtype), t(2, 3, 5, 7, 63, 64, 65, 1, 0, 2).to(dtype))
    form(f"powers of {str(dtype)[6:]}", lambda x, k: (x**2, x**3, x.square(), x**0, x**k, 3**k), given)
    form(
        f"divisions of {str(dtype)[6:]}",
        lambda x, k: (
            *(x % 7, torch.fmod(x, 7), torch.fmod(x, k + (k == 0)), x // 7),
            *(torch.div(x, each, rounding_mode="trunc") for each in (7, k + (k == 0))),
        ),
        given,
    )
    form(
        f"sums of {str(dtype)[6:]}",
        lambda x, k: (x.sum(0), x.sum(0, dtype=x.dtype), torch.stack([x, k]).sum(1), x.unfold(0, 3, 2).sum(-1)),
        given,
    )
    form(f"rounding of {str(dtype)[6:]}", lambda x, k: (x.floor(), x.ceil(), x.round(), x.trunc()), given)
form("powers of negative exponents", torch.pow, (t(1, -1, -1, 2, 0, 3), t(-2, -3, -2, -1, 4, -1)))
form("var great mean", lambda x: (x.var(-1), x.std(0)), (30 + n(4, 19),))
form("late check", lambda x, w: _checked(x @ w), (n(3, 4),), own=[n(4, 4)])
form("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (n(4, 8) * 3,))
form("addmm alpha beta", lambda a, b, w: torch.addmm(b, a, w, beta=0.5, alpha=2.0), (n(3, 4),), own=[n(5), n(4, 5)])
form("addmm bias 2d", lambda a, b, w: torch.addmm(b, a, w), (n(3, 4),), own=[n(3, 5), n(4, 5)])
form(
    "avg_pool divisor",
    lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, divisor_override=9),
    (n(1, 2, 9, 9),),
)
form("bilinear by factor", lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (n(1, 2, 11, 13),))
form("bilinear aligned", lambda x: F.interpolate(x, (5, 30), mode="bilinear", align_corners=True), (n(2, 3, 11, 13),))
form("linear vector", F.linear, (n(3, 4),), own=[n(4)])
form(
    "conv_transpose output_padding",
    lambda x, w: F.conv_transpose2d(x, w, output_padding=1, dilation=2),
    (n(1, 2, 4, 4),),
    own=[n(2, 2, 3, 3)],
)


class TwoNorms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.a, self.b = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.a.running_mean += 1
        self.b.running_var *= 4

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(self.conv(x)), self.b(self.conv(x + 1))


class Grouped(nn.Module):
    def __init__(self, affine: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6, affine=affine))
        self.net[1].running_var *= torch.arange(1, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class GroupedPlain(Grouped):
    def __init__(self) -> None:
        super().__init__(affine=False)


form("one conv two norms", TwoNorms, (n(1, 3, 8, 8),))
form("norm behind grouped transpose", Grouped, (n(1, 4, 6, 6),))
form("norm affine free behind grouped transpose", GroupedPlain, (n(1, 4, 6, 6),))

# One weight, several readers.
form("tied transposed", lambda x, w: F.linear(F.relu(F.linear(x, w)), w.t()), (n(3, 4),), own=[n(5, 4)])
form("conv and its weight", lambda x, w: (F.conv2d(x, w), w * 2), (n(1, 3, 5, 5),), own=[n(4, 3, 3, 3)])
form("large window", lambda x, w: F.conv2d(x, w, padding=3, groups=3), (n(1, 3, 9, 10),), own=[n(3, 1, 7, 7)])
form(
    "large window twice",
    lambda x, w: F.conv2d(F.conv2d(x, w, padding=3, groups=3), w, padding=2, groups=3) * w.mean(),
    (n(1, 3, 9, 10),),
    own=[n(3, 1, 7, 7)],
)
form("bias elsewhere", lambda x, w, b: F.linear(x, w, b) + (x.sum() * b), (n(3, 4),), own=[n(5, 4), n(5)])
form("cosine head", lambda x, w: F.linear(x, w) / w.norm(dim=1), (n(3, 4),), own=[n(5, 4)])
form(
    "transpose and its weight",
    lambda x, w: (F.conv_transpose2d(x, w), F.relu(w)),
    (n(1, 3, 5, 5),),
    own=[n(3, 4, 3, 3)],
)
form("prelu and its weight", lambda x, w: (F.prelu(x, w), w * x.sum()), (n(1, 3, 5, 5),), own=[n(3)])
form("product and its constant", lambda x, w: (x @ w, w + x.sum(), w @ x), (n(2, 4, 4),), own=[n(2, 4, 4)])
form("table and its layer", lambda x, w, k: (F.linear(x, w), w[k] * 2), (n(3, 4),), own=[n(5, 4), t(2, 0)])
form("layer and its weight", lambda x, w: (F.linear(x, w), w), (n(3, 4),), own=[n(5, 4)])
form(
    "conv and transpose",
    lambda x, w: F.conv_transpose2d(F.conv2d(x, w, padding=1), w, padding=1),
    (n(1, 3, 6, 6),),
    own=[n(4, 3, 3, 3)],
)

# NaN and infinity.
form("nan exp", torch.exp, (ODD,))
form("nan log", torch.log, (ODD,))
form("nan sqrt", torch.sqrt, (ODD,))
form("nan relu", F.relu, (ODD,))
form("nan clamp", lambda x: x.clamp(-2, 2), (ODD,))
form("nan sign", torch.sign, (ODD,))
form("nan roots", lambda x: (x**0.5, x**-0.5, x**2, x**-1), (ODD,))
form("nan roots half", lambda x: (x**0.5, x**-0.5), (ODD.half(),))
form("nan linear1d", lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), (ODD[None],), (ODD[None].flip(2),))
form("nan trilinear", lambda x: F.interpolate(x, scale_factor=2.0, mode="trilinear"), (ODD.view(1, 1, 2, 2, 2),))
form(
    "nan bilinear",
    lambda x: [F.interpolate(x, size, mode="bilinear") for size in ((3, 7), (2, 7), (5, 4), (2, 4), (1, 1))],
    (ODD.view(1, 1, 2, 4),),
    (ODD.flip(1).view(1, 1, 2, 4),),
)
form("nan bilinear half", lambda x: F.interpolate(x, (3, 7), mode="bilinear"), (ODD.view(1, 1, 2, 4).half(),))
form("nan linear same", lambda x: F.interpolate(x, (8,), mode="linear"), (ODD[None],))
form("nan trilinear axis", lambda x: F.interpolate(x, (2, 5, 2), mode="trilinear"), (ODD.view(1, 1, 2, 2, 2),))
form("nan antialias", lambda x: F.interpolate(x, (1, 5), mode="bilinear", antialias=True), (ODD.view(1, 1, 2, 4),))
form(
    "nan conv_transpose", lambda x, w: F.conv_transpose2d(x, w, stride=2), (ODD.view(1, 1, 2, 4),), own=[n(1, 2, 3, 3)]
)
# Each coordinate beside one that is none; the last one is far outside.
POINTS = torch.stack((t(NAN, INF, -INF, 1e30, *[0.3] * 4, NAN), t(*[0.3] * 4, NAN, INF, -INF, -1e30, INF)), -1)


def _sampled(padding: str, aligned: bool) -> Callable[..., Any]:
    """Return a function that samples an image in each mode, and a volume."""

    def sampled(x: Tensor, grid: Tensor) -> Any:
        images = [F.grid_sample(x, grid, mode, padding, aligned) for mode in ("bilinear", "nearest", "bicubic")]
        volumes = F.pad(grid, (0, 1), value=0.1)[:, None]
        return *images, *(
            F.grid_sample(x[:, None], volumes, mode, padding, aligned) for mode in ("bilinear", "nearest")
        )

    return sampled


for padding in ("zeros", "border", "reflection"):
    for aligned in (True, False):
        name = f"nan grid_sample {padding}{' aligned' * aligned}"
        image, points = n(2, 3, 4, 5), POINTS.view(1, 3, 3, 2).repeat(2, 1, 1, 1)
        form(name, _sampled(padding, aligned), (image, n(2, 3, 3, 2)), (image.flip(1), points))
        form(f"{name} float64", _sampled(padding, aligned), (image.double(), points.double()))
form(
    "correlations",
    lambda x, k: (
        torch.corrcoef(x),
        torch.cov(x[0]),
        torch.corrcoef(x[0]),
        torch.cov(x, fweights=k, aweights=x[1] ** 2),
    ),
    (n(3, 5), t(1, 2, 0, 3, 1)),
    (torch.ones(3, 5), t(1, 0, 0, 0, 0)),
)
# A dynamic dimension of size 0, as of detections in a picture without any.
for name, function, own in (
    ("linear", F.linear, [n(3, 4), n(3)]),
    ("addition", lambda x: x + x.abs(), []),
    ("softmax", lambda x: x.softmax(-1), []),
    ("softmax of the rows", lambda x: x.softmax(0), []),
    ("layer_norm", lambda x, w: F.layer_norm(x, (4,), w), [n(4)]),
    ("sum", lambda x: (x.sum(0), x.sum(1), x.prod(0)), []),
    ("mean", lambda x: (x.mean(0), x.mean(1), x.var(1)), []),
    ("cat", lambda x, w: (torch.cat([x, x], 1), torch.cat([x, w]), torch.stack([x, x], 2)), [n(2, 4)]),
    ("sort", lambda x: (*x.sort(0), *x.sort(1), x.argsort(1)), []),
    ("cumsum", lambda x: (x.cumsum(0), x.cumsum(1)), []),
    ("matmul", lambda x: (x @ x.t(), x.t() @ x), []),
    (
        "mirror",
        lambda x: (F.pad(x[:, None], (1, 1), mode="circular"), F.pad(x[:, None], (1, 2), mode="reflect")),
        [],
    ),
    ("logcumsumexp", lambda x: (x.logcumsumexp(1), x.cumprod(1), x.median(1).values, x.kthvalue(2, 1).values), []),
    ("windows", lambda x: (F.unfold(x[:, None, :, None], (2, 1)), x.unfold(1, 2, 1), x.diff(dim=1)), []),
    ("permute", lambda x: (x.t().contiguous(), x.reshape(-1, 2, 2).permute(2, 0, 1) + 1), []),
    ("pad", lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 0))), []),
    ("index", lambda x, k: (x[:, k], x.index_select(1, k), x.repeat(2, 3)), [t(2, 0, 1)]),
    ("where", lambda x: (torch.where(x > 0, x, -x), x.clamp(0, 1), x.sigmoid()), []),
    ("argmax", lambda x: (x.argmax(1), x.amax(1), *x.max(1)), []),
):
    form(f"no rows {name}", function, (n(2, 4),), (n(0, 4),), (n(5, 4),), own=own, dynamic={(0, 0): (0, 8)})
for name, function, own in (
    ("conv", lambda x, w: F.conv2d(x, w, padding=1), [n(3, 2, 3, 3)]),
    ("conv_transpose", F.conv_transpose2d, [n(2, 3, 3, 3)]),
    ("pooling", lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)), []),
    ("interpolate", lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), []),
    ("batch_norm", lambda x, m: F.batch_norm(x, m, m.abs() + 1), [n(2)]),
    ("nearest", lambda x: F.interpolate(x, scale_factor=2.0), []),
    ("head", lambda x, w: F.linear(F.conv2d(x, w).relu().flatten(1), w.flatten()[:36].reshape(1, 36)), [n(9, 2, 3, 3)]),
    (
        "transposed head",
        lambda x, w: F.conv_transpose2d(x, w).relu().flatten(1) @ w.flatten().repeat(2)[:, None],
        [n(2, 1, 3, 3)],
    ),
    ("pooled head", lambda x, w: F.linear(F.max_pool2d(F.avg_pool2d(x, 2, 1), 2, 1).flatten(1), w), [n(5, 8)]),
):
    calls = [(n(count, 2, 4, 4),) for count in (2, 0, 3)]
    form(f"no images {name}", function, *calls, own=own, dynamic={(0, 0): (0, 4)})
for name, function, calls in (
    ("mm", torch.mm, [(n(3, k), n(k, 2)) for k in (4, 0, 1)]),
    ("bmm", torch.bmm, [(n(2, 3, k), n(2, k, 2)) for k in (4, 0, 1)]),
    ("addmm", lambda x, y: torch.addmm(torch.ones(2), x, y), [(n(3, k), n(k, 2)) for k in (4, 0, 1)]),
):
    dims = {(0, calls[0][0].dim() - 1): (0, 8), (1, calls[0][1].dim() - 2): (0, 8)}
    form(f"{name} of any depth", function, *calls, dynamic=dims)
form("covariances of any count", torch.cov, (n(3, 5),), (n(3, 1),), (n(3, 0),), dynamic={(0, 1): (0, 8)})
# Constants whose bytes are equal but for the padding of the last one.
form("constants padded", lambda x, a, b: (x + a, x * b), (n(4),), own=[t(1.0, 0.0, 0.0, 0.0), t(1.0)])
form("constants padded first", lambda x, a, b: (x * a, x + b), (n(4),), own=[t(1.0), t(1.0, 0.0, 0.0, 0.0)])
# Arrangements and masks of transformers.
SPARSE = torch.where(n(1, 3, 4, 5) > 1, ODD[0, :3].reshape(1, 3, 1, 1), n(1, 3, 4, 5))
ARRANGED = lambda x: (  # noqa: E731
    (x + 1).select(1, -1).unsqueeze(0) * 2,
    (x + 1)[0],
    (x + 1).unsqueeze(1).squeeze(1) * 3,
    (x + 1).expand(x.shape) * 2,
    torch.ops.aten.mul.Scalar(x + 1, 2.5),
    x[0] + 1,
)
form("arrangements", ARRANGED, (n(3, 4, 5),), (SPARSE[0],))
form("arrangements of integers", ARRANGED, (t(*range(60)).reshape(3, 4, 5),))
form("arrangements of any size", ARRANGED, (n(3, 4, 5),), (n(1, 4, 5),), (n(6, 4, 5),), dynamic={(0, 0): (1, 8)})
form(
    "roll of any size",
    lambda x: x.roll((1, -2), (0, 1)) * 2,
    (n(3, 4),),
    (n(0, 4),),
    (n(5, 4),),
    dynamic={(0, 0): (0, 8)},
)
form("roll of complex numbers", lambda x: torch.view_as_real(torch.view_as_complex(x).roll(2, 0)), (n(5, 2),))


def _masked(x: Tensor) -> Tensor:
    mask = x.new_zeros(4, 4)
    mask[:2, 2:], mask[2:, :2] = -torch.inf, -torch.inf
    hidden = torch.full_like(mask, -torch.inf)
    return torch.stack([F.scaled_dot_product_attention(x, x, x, each) for each in (mask, hidden)])


form("masked attention", _masked, (n(2, 3, 4, 5),), (SPARSE.expand(2, 3, 4, 5),))
form("rrelu", torch.nn.RReLU, (ODD,))
form("inverse", lambda x: (x.inverse() @ x, x.inverse() + 1, torch.linalg.det(x)), (n(3, 4, 4),), (n(3, 4, 4, seed=1),))
form("inverse float64", torch.inverse, (n(4, 4, dtype=torch.float64),), (n(4, 4, seed=1, dtype=torch.float64),))
form("inverse of any batch", torch.inverse, (n(3, 4, 4),), (n(5, 4, 4, seed=1),), dynamic={(0, 0): (0, 6)})
form(
    "solve", lambda x, y: (torch.linalg.solve(x, y), torch.linalg.solve(x, y[..., 0])), (n(3, 4, 4), n(3, 4, 2, seed=1))
)
form("solve of tensors", lambda x, y: torch.linalg.tensorsolve(x, y, (0, 2)) + 1, (n(3, 4, 4, 3), n(4, 3, seed=1)))
form("eigh of a batch", lambda x: [each + 1 for each in torch.linalg.eigh(x)], (n(3, 4, 4),), (n(3, 4, 4, seed=1),))
form("eigh upper", lambda x: torch.linalg.eigh(x, "U"), (n(9, 9, dtype=torch.float64),))
form("eigvalsh large", torch.linalg.eigvalsh, (n(40, 40),))
form("svd of a batch", lambda x: [each + 1 for each in torch.linalg.svd(x)], (n(3, 5, 3),), (n(3, 5, 3, seed=1),))
form("svd wide", torch.linalg.svd, (n(4, 7, dtype=torch.float64),))
form("svd of any rows", lambda x: torch.linalg.svd(x, False), (n(7, 3),), (n(2, 3),), dynamic={(0, 0): (1, 9)})
form("svdvals large", torch.linalg.svdvals, (n(40, 30),))
form("infinite svdvals", lambda x: (torch.linalg.svdvals(x), torch.linalg.pinv(x)), (t([INF, 1.0], [0.0, 2.0]),))
form("pinv hermitian", lambda x: torch.linalg.pinv(x @ x.mT, hermitian=True) + 1, (n(3, 4, 4),))
form("pinv tolerance", lambda x, y: torch.linalg.pinv(x, atol=y), (n(3, 4, 4), t(0.0, 1.0, 2.0)))
form("lstsq vectors", lambda x, y: torch.linalg.lstsq(x, y)[0] + 1, (n(2, 4, 3), n(2, 4, seed=1)))
form("lstsq of low rank", lambda x, y: torch.linalg.lstsq(x, y)[::2], (n(4, 2) @ n(2, 3, seed=1), n(4, 2)))
form(
    "lstsq of any rows",
    lambda x, y: torch.linalg.lstsq(x, y, driver="gelsd")[1],
    (n(6, 3), n(6, 2)),
    (n(4, 3), n(4, 2, seed=1)),
    dynamic={(0, 0): (4, 9), (1, 0): (4, 9)},
)
form("reflections", lambda x: (torch.geqrf(x)[0] + 1, torch.linalg.householder_product(*torch.geqrf(x))), (n(2, 4, 3),))
form("matrix_exp scaled", lambda x: torch.matrix_exp(x) + 1, (n(3, 4, 4),), (n(3, 4, 4, seed=1) * 8,))
form("nan maximum", torch.maximum, (ODD, ODD.flip(1)))
form("nan max_pool", lambda x: F.max_pool2d(x.view(1, 1, 2, 4), (1, 2)), (ODD,))
form("nan last max_pool", lambda x: F.max_pool2d(x.flip(1).view(1, 2, 4), (2, 2), 1, 1, 1, True), (ODD,))
form("nan last max_pool indices", lambda x: F.max_pool2d(x.flip(1)[None], (1, 4), return_indices=True), (ODD,))
form("nan last max_pool half", lambda x: F.max_pool2d(x.flip(1).half().view(1, 2, 4), 2), (ODD,))
form("counted linear", lambda x, w: F.linear(x[x[:, 0] > 0], w).relu(), (n(6, 4), n(3, 4)))
form("counted linear none", lambda x, w: F.linear(x[x[:, 0] > 9], w, w[:, 0]), (n(6, 4), n(3, 4)))
form(
    "counted convolution",
    lambda x, w: F.conv2d(x[x[:, 0, 0, 0] > 0], w, padding=1).relu(),
    (n(6, 2, 4, 4), n(3, 2, 3, 3)),
)
form("counted convolution none", lambda x, w: F.conv2d(x[x[:, 0, 0, 0] > 9], w), (n(6, 2, 4, 4), n(3, 2, 3, 3)))
form("nan last max_pool1d", lambda x: F.max_pool1d(x.flip(1), 3, 2), (ODD,))


def _image_of_tokens(x: Tensor, weight: Tensor, window: Tensor) -> Tensor:
    """SegFormer's feed-forward net, between two linear layers: XNNPACK's transpositions cancel the model's."""
    image = F.linear(x, weight).transpose(1, 2).reshape(x.shape[0], 4, 2, 3)
    return F.linear(F.conv2d(image, window, padding=1, groups=4).flatten(2).transpose(1, 2), weight)


TOKENS = n(2, 6, 4)
OWN_OF_TOKENS = [n(4, 4), n(4, 1, 3, 3)]
form(
    "image of tokens",
    _image_of_tokens,
    (TOKENS,),
    (-TOKENS,),
    (TOKENS.where(TOKENS < 1, INF),),
    (TOKENS.where(TOKENS < 1, NAN),),
    own=OWN_OF_TOKENS,
)

form(
    "image of tokens dynamic",
    _image_of_tokens,
    (TOKENS,),
    (n(5, 6, 4),),
    (n(1, 6, 4),),
    own=OWN_OF_TOKENS,
    dynamic={(0, 0): (1, 5)},
)

# Kernels for the CPU.
form("remainder int", lambda x: x % 7, (torch.arange(-6, 6),))
form("remainder int8 tensor", torch.remainder, (torch.arange(-6, 6, dtype=BYTE), t(*[3, -3, 4] * 4, dtype=BYTE)))
form("floor_divide zero", lambda x, y: x // y, (t(1.0, -1.0, 0.0, 2.0), t(0.0, 0.0, 0.0, -0.0)))
form("trilinear same axis", lambda x: F.interpolate(x, scale_factor=1.4, mode="trilinear"), (n(1, 1, 2, 5, 5),))
form("log_softmax float64", lambda x: torch.log_softmax(x, 0, dtype=torch.float64), (n(3, 4),))
form("to float64 non_blocking", lambda x: x.to("cpu", torch.float64, non_blocking=True), (n(3, 4),))


def _two_conds(x: Tensor) -> tuple[Tensor, Tensor]:
    a = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))
    b = torch.cond(x.mean() > 1, lambda v: v + 3, lambda v: v * 5, (x,))
    return a + b, a


def _nested_conds(x: Tensor) -> tuple[Tensor, Tensor]:
    a = torch.cond(x.sum() > 0, lambda v: _two_conds(v)[0], lambda v: v - 1, (x,))
    b = torch.cond(x.mean() > 1, lambda v: v + 3, lambda v: _two_conds(v)[0], (x,))
    return a, b


def _chained_conds(x: Tensor) -> tuple[Tensor, ...]:
    a = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))
    b = torch.cond(a.mean() > 1, lambda v, w: v + w, lambda v, w: v * w, (x, a))
    c = torch.cond(b.sum() > 0, lambda v, w: v - w, lambda v, w: v * w + 1, (a, b))
    return a, b, c


form("nested conds", _nested_conds, (n(3, 4).abs(),), (-n(3, 4).abs(),))
form("chained conds", _chained_conds, (n(3, 4).abs(),), (-n(3, 4).abs(),))
form("two conds", _two_conds, (n(3, 4).abs(),), (-n(3, 4).abs(),))
form("shift left", lambda x: x << 3, (torch.arange(6, dtype=torch.uint8),))
form("vmap", lambda x: torch.vmap(lambda v: v @ v)(x), (n(3, 4),))
form("vmap twice", lambda x: torch.vmap(torch.vmap(lambda v: v * v.abs()))(x), (n(3, 4),), (n(3, 4, seed=1),))
form(
    "vmap dynamic",
    lambda x, w: torch.vmap(lambda v: F.linear(v, w).softmax(0))(x),
    (n(3, 4),),
    (n(5, 4),),
    (n(1, 4),),
    own=[n(2, 4)],
    dynamic={(0, 0): (1, 5)},
)
