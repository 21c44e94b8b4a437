"""Record tests that all passed, so that the same command is answered from the record."""

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
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.store.output_tree import OutputStamp
from modelbuild.testing.text import test_lines, test_summary


@dataclass(frozen=True, slots=True)
class ResultRecorder:
    """The place of the records, and the state before anything was read."""

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
        """Record everything that decided the results, if each of them is in the cache. Tests come with the paths of
        their reports, which are `laid_out`. Returns the text to print if nothing changed; '' if the tests must run
        again."""
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
    """Return whether a test passed on the first attempt."""
    return ended.status == "passed" and (ended.cached or ended.attempts == ended.passed)
