"""Limits of settings."""

from __future__ import annotations

MOST_JOBS = 10_000
