"""The commands by name, and what `modelbuild --help` says of each. Imports nothing: completion needs no more."""

from __future__ import annotations

COMMANDS = {
    "affected": "Tell which targets a change touches.",
    "aquery": "Show the actions of targets: keys, inputs, outputs, tools.",
    "build": "Build targets and lay out their outputs.",
    "cache": "Look after the local cache.",
    "ci": "Build and test what a change touches.",
    "clean": "Remove the output tree.",
    "cquery": "Ask about targets as they are built for a device.",
    "diff": "Tell what differs between two action keys.",
    "explain": "Tell why actions ran, or why they did not have to.",
    "history": "Show how long a target took, and how big it was.",
    "info": "Tell what this workspace and this machine are set to.",
    "inspect": "Tell what is in a .pte: partitions, engines, and what was left out and why.",
    "query": "Ask about targets as BUILD files declare them.",
    "run": "Build a program and run it on inputs.",
    "schema": "Print a JSON Schema of BUILD.toml for editors.",
    "test": "Build what tests need, and run them.",
    "version": "Print the version.",
}
