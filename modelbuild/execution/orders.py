"""The JSON documents that the engine and the processes of actions exchange, as types.

For type checkers only: import it under `if TYPE_CHECKING`, so that workers do not load it. Paths are absolute unless
stated otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict


class WorkerSettings(TypedDict):
    """The parts of a sandbox that all actions of a process have in common."""

    packages: Mapping[str, str]
    """Folders of modelbuild and of rule packages, by import name."""

    import_path: Sequence[str]
    """Folders that Python imports from."""

    readable: Sequence[str]
    """Folders and files outside an action's folder that it may read."""

    workspace: str
    scratch: str
    """The folder in which the folders of actions are."""


class ServerSettings(WorkerSettings):
    """The settings that a fork server starts with."""

    preload: Sequence[str]
    """Modules to import before the first action."""

    distributions: Sequence[str]
    """Canonical names of the distributions that these find."""

    namespaces: bool
    """False to do without namespaces, as where the kernel refuses them."""

    variables: Mapping[str, str]
    """The server's environment."""


class CompletedSettings(WorkerSettings):
    """Settings as a process of actions uses them."""

    around: Sequence[str]
    """The readable folders without the rule packages that lie in them."""


class StepOrder(TypedDict):
    """The part of an order that depends on the action alone."""

    step: str
    """Import name of its module."""

    params: Mapping[str, Any]
    inputs: Mapping[str, Sequence[str]]
    """Paths by the input's name, relative to the action's folder."""

    outputs: Mapping[str, str]
    """Path by the output's name, relative to the action's folder."""

    cpus: int
    network: bool
    gpu: bool
    """True if it may use GPUs."""

    modules: Mapping[str, str]
    """SHA-256 of the modules in its key, by import name."""

    distributions: Sequence[str]
    """Canonical names of the distributions in its key; Python finds no other."""

    local: bool
    """True if local modules are laid out among its inputs."""

    env: Mapping[str, str]
    """Its whole environment in an order to a worker; the declared part of it in a remote order."""


class Order(StepOrder):
    """An order to a worker."""

    fetches: Sequence[str]
    """Files that an action with a network may read besides."""

    root: str
    """The action's folder."""

    writable: Sequence[str]
    """Folders that it may write to."""


class LocalOrder(Order):
    """An order to a fork server."""

    stdout: str
    """The file for the step's output."""

    stderr: str
    limit: float | None
    """Seconds after which the worker is killed; None for no limit."""


class NumberedOrder(LocalOrder):
    """An order in the form in which it is sent."""

    id: int
    """The number that the answer has."""


class Toolchain(TypedDict):
    """The versions that a remote worker must have, and the distributions that are sent to it."""

    python: str
    machine: str
    tools: Mapping[str, str]
    """State of each distribution; empty if they are sent."""

    folder: str
    """Path of the folder of sent distributions, relative to that of the program; '' if none are."""

    gpus: NotRequired[Sequence[str]]
    """Models of GPUs, of an action that gets some."""


class RemoteOrder(TypedDict):
    """order.json of a remote action. It contains no path of a machine."""

    action: StepOrder
    outputs_folder: str
    """Path of the folder for outputs, relative to the action's folder."""

    home: str
    """Path of the home folder, likewise."""

    folders: Sequence[str]
    """Paths of folders to make for outputs, likewise."""

    preload: Sequence[str]
    """Modules to import before the step's process is forked."""

    packages: Sequence[str]
    """Import names of modelbuild and of rule packages."""

    toolchain: Toolchain


class Exit(TypedDict):
    """The end of a worker's process."""

    status: int
    """Its exit status, or minus the signal that killed it."""

    seconds: float
    max_rss: int
    """Peak of its resident memory in bytes."""


class Failure(TypedDict):
    """A fork server's answer to an order for which it could not start a worker."""

    id: int
    problem: str


class Unfit(TypedDict):
    """A fork server's answer to an order that needs another server: with the distributions in its key, the preloads
    would import other modules."""

    id: int
    unfit: bool


class Answer(Exit):
    """A fork server's answer to an order."""

    id: int
    report: str
    """The worker's report: a `Read` or, last, an `End` in each line."""

    late: bool
    """True if the worker was killed because it reached its limit."""

    problem: NotRequired[str]
    """The reason why the step's output could not be kept."""


class Part(TypedDict):
    """A fork server's message about a running order."""

    id: int
    part: str
    """The part of its work that it has begun, as the step wrote it."""


class Ready(TypedDict):
    """A fork server's message that all modules are imported."""

    ready: bool


class Read(TypedDict):
    """An attempt to read a file that is not declared."""

    read: str
    """The file; relative to the workspace if `inside` it."""

    inside: bool
    declared: bool
    """True if the file is an input at another path."""

    verb: str
    """reads, lists, imports, ..."""

    reader: str
    """The user's file that reads it, relative to the workspace; '' if unknown."""

    module: str
    """Import name of a rule package's module in this file; ''."""

    unseen: bool
    """True if the worker cannot see whether the file exists."""


class End(TypedDict):
    """The end of a step."""

    end: str
    """done, undeclared, network, failed (a StepError), user or internal."""

    text: NotRequired[str]
    """The error message; absent for `done` and `undeclared`."""

    reader: NotRequired[str]
    """For `network`: the user's file that uses it, or ''."""

    missing: NotRequired[str]
    """For `user` and `internal`: a module that was not found, or ''."""

    perhaps: NotRequired[Sequence[Read]]
    """For `undeclared`: the read. For other errors: reads that may have caused it."""

    changed: NotRequired[Sequence[str]]
    """Modules that were imported from a source that differs from the key's."""

    strays: NotRequired[Sequence[str]]
    """Modules that were imported and are not in the key."""
