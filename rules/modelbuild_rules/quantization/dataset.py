"""dataset: samples that bind a model's inputs by name, for calibration and for accuracy tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from modelbuild.api import Artifact, Context, Entry, Files, Output, Provider, Resources, SourceArtifact, Sources, rule
from modelbuild_rules.distributions import Distribution
from modelbuild_rules.files.origin import OriginAttrs
from modelbuild_rules.providers import Dataset

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import GeneratedParams


class DatasetAttrs(OriginAttrs):
    """Samples: arrays by name, a model's inputs and, for metrics, labels. Set one of `files`, `archives` and
    `entry`."""

    renamed: ClassVar[Mapping[str, str]] = {"generator": "entry"}

    files: dict[str, Sources] = Field(default_factory=dict)
    """`.npy`, `.json` or pictures, as `modelbuild run` reads them. The first files of all names make the first
    sample."""

    archives: Sources = ()
    """`.npz` or `.safetensors` files; each is a sample, with arrays by name."""

    entry: Entry | None = None
    """`file.py:name` of a function that yields samples: dictionaries of numpy or torch arrays."""

    srcs: Sources = ()
    """Additional Python files: of other packages, or imported without an import statement."""

    data: Sources = ()
    """Other files that the code reads: files of the workspace at their paths, files of targets at
    `PACKAGE/TARGET/NAME`, as below `modelbuild-out/DEVICE`."""

    kwargs: dict[str, bool | int | float | str | list[bool | int | float | str]] = Field(default_factory=dict)
    """Arguments of the function or class."""

    requires: tuple[Distribution, ...] = ()
    """Distributions that the code uses without import statements."""

    seed: int = 0
    """Seed of torch, random and numpy.random for the function."""

    max_samples: int | None = Field(default=None, ge=1)
    """Number of samples to use; by default all."""


EXAMPLE = """
[[dataset]]
name = "photos"
files = { image = { glob = ["photos/*.png"] } }
max_samples = 32
"""


@rule(attrs=DatasetAttrs, example=EXAMPLE)
def dataset(ctx: Context[DatasetAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    archives = ctx.files(attrs.archives)[: attrs.max_samples]
    if [bool(attrs.files), bool(archives), attrs.entry is not None].count(True) != 1:
        raise ctx.error((), "expected one of 'files', 'archives' and 'entry'")
    if attrs.entry is not None:
        srcs = ctx.files(attrs.entry, attrs.srcs)
        samples = _generated(ctx, attrs.entry, srcs)
        origin = attrs.origin((*srcs, *ctx.files(attrs.data)))
        return Dataset(generated=samples), Files((samples,)), origin
    for name in ("srcs", "data", "kwargs", "requires", "seed"):
        if name in attrs.model_fields_set:
            raise ctx.error(name, f"'{name}' is for a function; expected 'entry' as well")
    files = {name: ctx.files(given) for name, given in attrs.files.items()}
    counts = {name: len(each) for name, each in files.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
        raise ctx.error("files", f"expected as many files of each name, got {shown}")
    if 0 in counts.values():
        raise ctx.error("files", "no files; expected one or more")
    for index, path in enumerate(each.path for each in archives if isinstance(each, SourceArtifact)):
        if not path.endswith((".npz", ".safetensors")):
            place = ("archives",) if not isinstance(attrs.archives, tuple) else ("archives", index)
            raise ctx.error(place, f"'{path}': expected a file ending in .npz or .safetensors")
    files = {name: each[: attrs.max_samples] for name, each in files.items()}
    made = Dataset(files, archives)
    return made, Files(made.sources), attrs.origin(made.sources)


def _generated(ctx: Context[DatasetAttrs], entry: Entry, srcs: tuple[Artifact, ...]) -> Artifact:
    """Declare the action that runs the function; return the folder of samples."""
    attrs = ctx.attrs
    params: GeneratedParams = {
        "entry": ctx.entry(entry),
        "kwargs": attrs.kwargs,
        "max_samples": attrs.max_samples,
        "seed": attrs.seed,
    }
    return ctx.action(
        "generate",
        step="generate",
        inputs={"srcs": srcs, "data": ctx.files(attrs.data)},
        outputs=[Output("samples", "samples", "tree")],
        params=params,
        tools=("numpy", "safetensors", "torch", *attrs.requires),
        python=("srcs",),
        data=("data",),
        preload=("torch",),
        resources=Resources(memory=2 << 30),
        description=f"generate samples with {entry}",
    )["samples"]
