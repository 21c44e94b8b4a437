"""Providers: the data that a target passes to the targets that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from modelbuild.actions import Artifact, DerivedArtifact, SourceArtifact
from modelbuild.device_runners import DeviceSpec


class Provider:
    """Base of a rule's return values: frozen dataclasses, at most one of each class per target.

    made_by  the rules whose targets have it, such as "backend_stack", for help and errors
    phrase   a target that has it, for errors about a missing provider; '' if its rule describes it
    """

    made_by: ClassVar[tuple[str, ...]] = ()
    phrase: ClassVar[str] = ""


class Platform(Provider):
    """Base of the provider of a device."""

    @property
    def spec(self) -> DeviceSpec | None:
        """The device's runners and properties; None if programs cannot run there."""
        return None


@dataclass(frozen=True, slots=True)
class PythonToolchain(Provider):
    """An environment of Python packages for steps.

    lock         the lock file
    python       a version, or the absolute path of a program; '' for modelbuild's Python
    from_source  canonical names of distributions that may be built from source
    """

    made_by: ClassVar[tuple[str, ...]] = ("python_toolchain",)

    lock: SourceArtifact
    python: str
    from_source: tuple[str, ...]


class Runnable(Provider):
    """Base of the provider of a program for `modelbuild run`."""

    @property
    def method_inputs(self) -> Mapping[str, tuple[str, ...] | None]:
        """The names of the inputs by method; None for a method whose inputs are known only after the program is built.
        By default the methods are unknown."""
        return {}


@dataclass(frozen=True, slots=True)
class Files(Provider):
    """The files that `modelbuild build` lays out, and that other targets get for a `Source` attribute."""

    files: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class OutputGroups(Provider):
    """Further files by group: `modelbuild build --output-groups=NAME` builds them instead of the target's files, in a
    separate folder."""

    groups: Mapping[str, tuple[Artifact, ...]]


@dataclass(frozen=True, slots=True)
class TestAction(Provider):
    """Makes a target a test. Each report is an output of a test action (one per shard): JSON as described in
    docs/reference/tests.md. Only `modelbuild test` runs these actions.

    flaky      whether a failed test is run again by default
    filters    whether the actions run only the cases that `ctx.test_filter` selects
    unmatched  the reason why it selects no case, if known before the test; then there are no reports
    bisect     the search for the cause of a failure: JSON as described in docs/reference/tests.md
    """

    __test__ = False  # pytest would collect it as a test class

    reports: tuple[DerivedArtifact, ...]
    flaky: bool = False
    bisect: DerivedArtifact | None = None
    filters: bool = False
    unmatched: str = ""


@dataclass(frozen=True, slots=True)
class Release(Provider):
    """Makes a target a release: its version, and the labels of the tests that must pass before its files are
    published."""

    made_by: ClassVar[tuple[str, ...]] = ("release",)

    version: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin(Provider):
    """The licence and the source of files that a target adds, for provenance and SBOMs. No key contains it.

    files    the files, from the workspace or downloaded
    license  an SPDX expression; '' if unknown
    uris     addresses of the same bytes, or of their page, without user names and passwords
    """

    files: tuple[Artifact, ...]
    license: str = ""
    uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a target's outputs, for its SBOM.

    kind        library, data, or a machine-learning model
    license     an SPDX expression, or another licence's name; '' if unknown
    purl        the package URL of a published package; '' for none
    files       SHA-256 of its files in the outputs, by path
    properties  other facts, such as ("quantization", "int8")
    inputs      of a model: a line for each input, and in `outputs` for each output; `datasets` are files that it was
                made with
    """

    name: str
    version: str = ""
    kind: Literal["library", "data", "model"] = "library"
    license: str = ""
    purl: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contents(Provider):
    """The parts of a target's outputs, for its SBOM. `components` is called when the artifacts `reads` are built, with
    a mapping for each: a folder's files by their paths in it, or a file under the path ''."""

    reads: tuple[Artifact, ...]
    components: Callable[..., Sequence[Component]]
