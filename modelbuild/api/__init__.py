"""The rules API: everything that a rule package may import, built-in or a user's own."""

from modelbuild.actions import Artifact, DerivedArtifact, ErrorText, Output, Resources, SourceArtifact
from modelbuild.api.attrs import Attrs, Dep, Duration, Entry, Glob, LabelOf, Size, Source, Sources
from modelbuild.api.blob import Blob
from modelbuild.api.context import Context, Expander
from modelbuild.api.extension import Extensible, Extension
from modelbuild.api.probe import DeviceRuntime, Finding, Probe
from modelbuild.api.providers import (
    Check,
    Component,
    Contents,
    Files,
    Origin,
    Platform,
    Provider,
    PythonToolchain,
    Release,
    Runnable,
    Sensitivity,
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
    "Check",
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
    "Origin",
    "Output",
    "Platform",
    "Probe",
    "Provider",
    "PythonToolchain",
    "Release",
    "Resources",
    "Rule",
    "Runnable",
    "Sensitivity",
    "Size",
    "Source",
    "SourceArtifact",
    "Sources",
    "TestAction",
    "is_line",
    "rule",
]
