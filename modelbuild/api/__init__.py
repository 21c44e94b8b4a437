"""The rules API: everything that a rule package imports. Built-in rules and a user's own use nothing else."""

from modelbuild.actions import Artifact, DerivedArtifact, Output, Resources, SourceArtifact
from modelbuild.api.attrs import Attrs, Dep, Source, Sources
from modelbuild.api.context import Context, Expander
from modelbuild.api.providers import Files, Provider
from modelbuild.api.rule import Rule, rule
from modelbuild.errors import LoadingError

__all__ = [
    "Artifact",
    "Attrs",
    "Context",
    "Dep",
    "DerivedArtifact",
    "Expander",
    "Files",
    "LoadingError",
    "Output",
    "Provider",
    "Resources",
    "Rule",
    "Source",
    "SourceArtifact",
    "Sources",
    "rule",
]
