"""Options for running tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TestOptions:
    """Options for running tests: see docs/reference/cli/test.md."""

    __test__ = False  # pytest would collect it as a test class

    cache_results: bool = True
    runs_per_test: int = 1
    flaky_attempts: int = 1
    require_all: bool = False
    tags: tuple[str, ...] = ()
    bisect: bool = False
    output: str = "errors"
    filter: str = ""

    @property
    def all_again(self) -> bool:
        """Return whether tests run although the cache contains their results."""
        return not self.cache_results or self.runs_per_test > 1
