"""The files of a new workspace, for `modelbuild init`: an example, or targets for a checkpoint.

`modelbuild init` calls `example()` or `from_checkpoint(path)` of this module. It writes the files common to all
workspaces itself.
"""

from modelbuild_rules.starter.files import Starter, example, from_checkpoint

__all__ = ["Starter", "example", "from_checkpoint"]
