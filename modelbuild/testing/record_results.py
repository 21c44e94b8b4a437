"""Remembers tests that all passed, so that asking for them again is quickly answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from modelbuild.analysis.analyze import Analyzer
from modelbuild.build.plan import collect_seen
from modelbuild.build.request import BuiltTarget, Request
from modelbuild.build.snapshot import Seen, Snapshots
from modelbuild.build.source_files import Sources
from modelbuild.build.target_reads import gather_reads
from modelbuild.events import TestFinished
from modelbuild.execution.scheduler import Scheduler
from modelbuild.store.output_tree import OutputStamp
from modelbuild.testing.text import test_lines, test_summary


@dataclass(frozen=True, slots=True)
class Memory:
    """Where to remember, and what was seen before anything was read."""

    snapshots: Snapshots
    request: Request
    seen: Seen

    def keep(
        self,
        analyzer: Analyzer,
        sources: Sources,
        scheduler: Scheduler,
        tests: Sequence[tuple[TestFinished, Sequence[str]]],
        laid_out: Mapping[str, OutputStamp],
    ) -> str:
        """Write down what decided the results, if each is in the cache; tests come with the paths of their reports,
        which are `laid_out`. Returns what there is to say when nothing has changed; '' when tests are to run again."""
        if not all(_is_cached(ended) for ended, _ in tests):
            self.snapshots.forget(self.request)
            return ""
        self.seen.files.update(sources.stamps)
        self.seen.outputs.update(laid_out)
        self.seen.folders.update(sources.folders)
        collect_seen(analyzer, self.seen)
        reads = gather_reads(analyzer, scheduler.report.keys, analyzer.loader.files_read())
        targets = [BuiltTarget(ended.label, ended.config, tuple(reports)) for ended, reports in tests]
        self.snapshots.save(self.request, self.seen, targets, len(scheduler.report.keys), reads)
        cached = [replace(ended, cached=True) for ended, _ in tests]
        return "\n".join([*(line for each in cached for line in test_lines(each)), test_summary(cached)])


def _is_cached(ended: TestFinished) -> bool:
    """Whether a test passed, and not only at a later attempt."""
    return ended.status == "passed" and (ended.cached or ended.attempts == ended.passed)
