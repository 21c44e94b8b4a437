"""Imports a step once for all its actions, seeing nothing that an action would not see."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from modelbuild.execution.isolation import confine, environment, landlock
from modelbuild.execution.isolation.namespaces import View
from modelbuild.execution.worker.audit_hook import AuditHook


def import_step(
    step: str, variables: Mapping[str, str], settings: Mapping[str, Any], code: confine.Code, view: View
) -> bool:
    """Import a step's module in this process, which from then on can open only what some action may.

    variables   all environment variables; those of folders name ones that no action uses
    settings    what all actions have in common: packages, readable folders, the workspace, the folder of sandboxes
    view        what this process is to see of the machine

    False when importing fails, is refused a file or misses one, writes one or starts a thread: each action then imports
    the step itself, with files of its own, and says what is wrong.
    """
    environment.set_variables(variables)
    # The parent may, for what it imports; there is nowhere to write it to from here.
    sys.dont_write_bytecode = True
    limits = confine.of_import(settings, code, hidden=bool(view))
    view.join()
    os.chdir(settings["scratch"])
    landlock.hold((*settings["readable"], *code.folders, *environment.DEVICES))
    watch = _Watch(settings, code, limits)
    threads = _threads()
    limits.impose()
    watch.install()
    try:
        importlib.import_module(step)
    except BaseException:
        return False
    finally:
        watch.release()
    return not watch.refused and _threads() == threads


class _Watch(AuditHook):
    """A hook without an action: there is no folder that may be written."""

    def __init__(self, settings: Mapping[str, Any], code: confine.Code, limits: confine.Limits) -> None:
        nowhere = f"{settings['scratch']}/ahead"
        self.refused = False
        devices = environment.devices(gpu=False)
        readable = (*settings["readable"], *devices)
        super().__init__(nowhere, settings["workspace"], readable, devices, code, limits.sockets, self._noted)

    def _noted(self, fact: Mapping[str, Any]) -> None:
        self.refused = True

    def _check_write(self, name: str) -> None:
        try:
            super()._check_write(name)
        except PermissionError:
            self.refused = True
            raise


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))
