"""runtime_bundle: a program with exactly what runs it, in one folder that needs nothing else."""

from __future__ import annotations

from modelbuild.api import Attrs, Context, Dep, Files, Label, Output, Provider, rule
from modelbuild_rules.providers import Program
from modelbuild_rules.runtime_archive import RuntimeArchive


class RuntimeBundleAttrs(Attrs):
    """A program, modelbuild-run and the libraries that this program needs, a manifest and a `run.sh`.

    It runs on any Linux of the glibc that the manifest states: no Python, torch or CUDA toolkit, and for programs that
    run on a GPU only NVIDIA's driver.
    """

    program: Dep
    """The program: a `pte_program`."""

    runtime: RuntimeArchive
    """The archive that `make runtime` writes (build/runtime.tar)."""

    tar: bool = False
    """Pack the folder into one file, `NAME.tar.gz`."""


@rule(attrs=RuntimeBundleAttrs)
def runtime_bundle(ctx: Context[RuntimeBundleAttrs]) -> tuple[Provider, ...]:
    program = ctx.provider(ctx.attrs.program, Program)
    name = ctx.label.name
    made = ctx.action(
        "bundle",
        step="runtime_bundle",
        inputs={
            "pte": program.pte,
            "signature": program.signature,
            "delegation": program.delegation,
            "runtime": ctx.file(ctx.attrs.runtime),
            **({"ptd": program.ptd} if program.ptd else {}),
        },
        outputs=[Output("bundle", f"{name}.tar.gz") if ctx.attrs.tar else Output("bundle", name, "tree")],
        params={"name": name, "program": Label.parse(ctx.attrs.program, ctx.label.package).name, "tar": ctx.attrs.tar},
        description=f"bundle {ctx.attrs.program} with its runtime",
    )
    return (Files((made["bundle"],)),)
