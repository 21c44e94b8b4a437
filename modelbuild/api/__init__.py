"""The rules API: everything that a rule package may import, built-in or a user's own."""

from modelbuild.actions import Artifact, DerivedArtifact, ErrorText, Output, Resources, SourceArtifact
from modelbuild.api.attrs import Attrs, Dep, Duration, Entry, Glob, LabelOf, Size, Source, Sources
from modelbuild.api.blob import Blob
from modelbuild.api.command import Command, Option
from modelbuild.api.context import Context, Expander
from modelbuild.api.extension import Extensible, Extension
from modelbuild.api.probe import DeviceRuntime, Finding, Probe
from modelbuild.api.providers import (
    Component,
    Contents,
    Files,
    Origin,
    OutputGroups,
    Platform,
    Provider,
    PythonToolchain,
    Release,
    Runnable,
    TestAction,
)
from modelbuild.api.rule import Rule, rule
from modelbuild.device_runners import DeviceJob, DeviceRunner, DeviceSpec
from modelbuild.errors import LoadingError
from modelbuild.labels import Label
from modelbuild.lines import is_line

__all__ = [
    "Artifact",
    "Attrs",
    "Blob",
    "Command",
    "Component",
    "Contents",
    "Context",
    "Dep",
    "DerivedArtifact",
    "DeviceJob",
    "DeviceRunner",
    "DeviceRuntime",
    "DeviceSpec",
    "Duration",
    "Entry",
    "ErrorText",
    "Expander",
    "Extensible",
    "Extension",
    "Files",
    "Finding",
    "Glob",
    "Label",
    "LabelOf",
    "LoadingError",
    "Option",
    "Origin",
    "Output",
    "OutputGroups",
    "Platform",
    "Probe",
    "Provider",
    "PythonToolchain",
    "Release",
    "Resources",
    "Rule",
    "Runnable",
    "Size",
    "Source",
    "SourceArtifact",
    "Sources",
    "TestAction",
    "is_line",
    "rule",
]
