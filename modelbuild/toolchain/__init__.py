"""Toolchains: environments of Python packages that a lock file pins, made by uv in the cache."""
