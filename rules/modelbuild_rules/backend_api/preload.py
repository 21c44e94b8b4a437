"""The modules that workers import before the steps that export, lower and compile models."""

from __future__ import annotations

PRELOAD = ("torch", "modelbuild_rules.backend_api.steps.exir")
