"""The engine's commands by name, with the help of `modelbuild --help`. Imports nothing, so that completion is fast."""

from __future__ import annotations

COMMANDS = {
    "affected": "List targets affected by a change.",
    "aquery": "Print the actions of targets: keys, inputs, outputs, tools.",
    "attest": "Write the provenance of a built target.",
    "build": "Build targets and lay out their outputs.",
    "cache": "Maintain the local cache.",
    "ci": "Build and test targets affected by a change.",
    "clean": "Remove the outputs of builds.",
    "compare": "Build and test in two toolchains, and print what changes.",
    "cquery": "Query targets as built for a device.",
    "devices": "List devices: who is there, free or in use, what they have.",
    "doctor": "Check this machine, and print what to do about problems.",
    "explain": "Explain why actions ran or were cached.",
    "fetch": "Bring toolchains and downloads, for work without a network.",
    "fmt": "Format BUILD.toml files.",
    "help": "Describe a rule's attributes, or list the rules.",
    "history": "Print earlier durations, sizes and latencies of a target.",
    "info": "Print settings of this workspace and this machine.",
    "init": "Write a new workspace: an example, or one for a checkpoint.",
    "inspect": "Print the partitions, engines and other nodes of a .pte.",
    "lsp": "Complete and check BUILD.toml files in editors.",
    "publish": "Publish a target to a registry, a store or a folder.",
    "query": "Query targets as declared in BUILD files.",
    "release": "Build, test, attest and publish a release.",
    "run": "Build a program and run it on inputs.",
    "sbom": "Write the bill of materials of a built target.",
    "sign": "Sign a program, a bundle or another file.",
    "test": "Build and run tests.",
    "verify": "Verify a program or a bundle: signature, provenance, policy.",
}

# The folder of modelbuild/cli/commands/ that contains each command's module, which has _ for - in its name.
FOLDERS = {
    "building": ("build", "ci", "compare", "fetch", "run", "test"),
    "editing": ("fmt", "help", "init", "lsp"),
    "machine": ("cache", "clean", "devices", "doctor", "info"),
    "publishing": ("publish", "release"),
    "trust": ("attest", "sbom", "sign", "verify"),
    "querying": ("affected", "aquery", "cquery", "explain", "history", "inspect", "query"),
}
