"""The tests of a session: their actions, their results, and their records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from modelbuild.actions import Action, DerivedArtifact, FileEntry
from modelbuild.affected.git import find_head
from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.api.providers import TestAction
from modelbuild.errors import ExitCode, UsageError
from modelbuild.events import Notice, Reporter, TestCase, TestFinished
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.history.device_runs import DeviceRun, remember_runs
from modelbuild.history.regressions import EXACT
from modelbuild.ids import TargetId
from modelbuild.lines import one_line
from modelbuild.session.engine import Engine
from modelbuild.session.plan import config_name, output_folder
from modelbuild.session.session import Session
from modelbuild.store.interface import Store
from modelbuild.testing.executor import TestExecutor, output_text
from modelbuild.testing.options import TestOptions
from modelbuild.testing.report import TestReport, merge, read_report, require_all
from modelbuild.testing.select import programs_of, select_tests, test_of
from modelbuild.wording import count
from modelbuild.workspace.workspace import Workspace

# Number of attempts for a test that its rule declares flaky.
FLAKY = 3


@dataclass(frozen=True, slots=True)
class EndedTest:
    """A test's end. `built`: all its dependencies were built; `unmatched`: the reason if a filter selected no case."""

    target: ConfiguredTarget
    test: TestAction
    event: TestFinished
    built: bool
    unmatched: str


class Tests:
    """The tests among the targets of a session's request."""

    __test__ = False  # pytest would collect it as a test class

    def __init__(self, session: Session, options: TestOptions, build_all: bool) -> None:
        """Plan the session. `build_all`: all targets of the request are also built; then tests are optional. Raises
        UsageError if there is no test."""
        self._session = session
        self._options = options
        self._build_all = build_all
        plan = session.make_plan(options.filter)
        targets = select_tests(plan.analyzer, plan.targets, options.tags)
        if not targets and not build_all and not plan.incomplete:
            raise UsageError(f"no test in {' '.join(session.request.targets.patterns)}")
        tests = [(target, test) for target in targets if (test := test_of(target)) is not None]
        self._tests = _filterable(tests, session.reporter) if options.filter else tests
        self._reports = [artifact for _, test in self._tests for artifact in test.reports]
        self._others = plan.targets if build_all else ()
        self._executor: TestExecutor

    def preview(self) -> ExitCode:
        """Report the work that run() would do. Nothing runs."""
        return self._session.preview(self._others, [(target, test.reports) for target, test in self._tests])

    def run(self) -> ExitCode:
        """Run the tests and report their results."""
        session, options = self._session, self._options
        afresh = [report.action for report in self._reports] if options.all_again else ()
        session.run(self._others, [(target, test.reports) for target, test in self._tests], self._around, afresh)
        targets = session.lay_out(self._others)
        if session.unbuilt and not session.request.means.keep_going:
            self._tests = []
        ends = [self._end(target, test) for target, test in self._tests]
        if options.filter:
            kept = _matched([(e.event.label, e.unmatched) for e in ends], options.filter, session.reporter)
            ends = [end for end, keep in zip(ends, kept, strict=True) if keep]
        self._report(ends)
        laid = {output_folder(target) for target in self._others}
        programs = programs_of(session.plan.analyzer, (end.target for end in ends if end.built))
        session.lay_out_needed(target for target in programs if output_folder(target) not in laid)
        measures: dict[tuple[str, str], float] = {
            (TargetId.of(end.event.label, end.event.config), name): value
            for end in ends
            if not options.filter  # measures of a part are not comparable with measures of the whole
            for name, value in end.event.measures.items()
        }
        if any(end.event.identity for end in ends) and not options.filter:
            _remember_devices(session.workspace, [end.event for end in ends])
        return session.finish(session.result(targets, self._code(ends)), measures).code

    def _around(self, engine: Engine) -> TestExecutor:
        reports: dict[str, str] = {report.action: report.output for report in self._reports}
        attempts: dict[str, int] = {
            report.action: max(self._options.flaky_attempts, FLAKY if test.flaky else 1)
            for _, test in self._tests
            for report in test.reports
        }
        self._executor = TestExecutor(engine.executor, engine.store, reports, attempts, self._options.runs_per_test)
        return self._executor

    def _report(self, ends: list[EndedTest]) -> None:
        """Report results, with the causes of failures on request."""
        scheduler, store = self._session.scheduler, self._session.engine.store
        wrong = [end.test for end in ends if end.built and _has_failed(end.event)]
        causes = _find_causes(scheduler, store, wrong) if self._options.bisect else {}
        for end in ends:
            cause = causes.get(end.test.bisect)
            event = replace(end.event, cases=(*end.event.cases, cause)) if cause else end.event
            self._session.reporter.emit(event)
            self._session.unbuilt |= not end.built

    def _code(self, ends: list[EndedTest]) -> ExitCode:
        """Return the code for the results alone."""
        if any(end.event.status == "failed" for end in ends):
            return ExitCode.TESTS_FAILED
        idle = sum(end.event.status == "not_run" for end in ends)
        if not idle or self._build_all or self._session.unbuilt:
            return ExitCode.OK
        expected = "expected what the reasons name, or a choice of other tests, as by --test-tag-filters=-TAG"
        self._session.reporter.emit(Notice(f"{count(idle, 'test')} did not run here: {expected}"))
        return ExitCode.ENVIRONMENT

    def _end(self, target: ConfiguredTarget, test: TestAction) -> EndedTest:
        """Lay out a test's reports, and return its end."""
        found = [self._read(artifact) for artifact in test.reports]
        built = all(built for _, built in found)
        report = merge([report for report, _ in found]) if found else TestReport("not_run", unmatched=test.unmatched)
        unmatched = report.unmatched
        if self._options.require_all:
            report = require_all(report)
        attempts = [self._executor.ended.get(artifact.action) for artifact in test.reports]
        ran = [each for each in attempts if each is not None]
        label = target.node.label
        device, identity = self._device(test)
        if built:
            value = self._session.scheduler.values.value
            self._session.put(output_folder(target), {name: value(artifact) for name, artifact in _named(test)})
        event = TestFinished(
            str(label),
            config_name(target.device),
            report.status,
            report.reason,
            seconds=sum(each.seconds for each in ran),
            cached=not ran and built,
            attempts=max((each.runs for each in ran), default=1),
            passed=min((each.passed for each in ran), default=0),
            cases=report.cases,
            location=str(self._session.plan.analyzer.loader.target(label).location()),
            measures=report.measures,
            output=self._output(test),
            device=device,
            identity=identity,
            shown=self._options.output != "summary",
        )
        return EndedTest(target, test, event, built, unmatched)

    def _device(self, test: TestAction) -> tuple[str, Mapping[str, str]]:
        """Return the device that a test's program runs on, and the device's facts about itself; '' and no facts if
        there is no device."""
        scheduler = self._session.scheduler
        for report in test.reports:
            action = scheduler.graph.nodes.get(report.action)
            if isinstance(action, Action) and action.device is not None:
                material = scheduler.report.materials.get(report.action)
                return action.device.label, material.get("device", {}) if material is not None else {}
        return "", {}

    def _output(self, test: TestAction) -> str:
        """Return the printed text of a test's failed runs, or with --test-output=all of all its runs and cached
        results."""
        scheduler, store = self._session.scheduler, self._session.engine.store
        texts: list[str] = []
        for artifact in test.reports:
            ended = self._executor.ended.get(artifact.action)
            result = scheduler.report.results.get(artifact.action)
            if ended is not None and (ended.report.status == "failed" or self._options.output == "all"):
                texts.append(ended.output)
            elif ended is None and result is not None and self._options.output == "all":
                texts.append(scheduler.keeping(partial(output_text, store, result)))
        return "".join(texts)

    def _read(self, artifact: DerivedArtifact) -> tuple[TestReport, bool]:
        """Return a shard's report, and whether its dependencies were built."""
        ended = self._executor.ended.get(artifact.action)
        if ended is not None:
            return ended.report, True
        culprit = self._session.scheduler.culprit([artifact])
        if culprit is not None:
            return TestReport("failed", f"not built: {culprit} failed" if culprit else "not built"), False
        value = self._session.scheduler.values.value(artifact)
        assert isinstance(value, FileEntry)
        return read_report(self._session.engine.store.read_bytes(value.digest)), True


def _named(test: TestAction) -> Iterator[tuple[str, DerivedArtifact]]:
    for number, artifact in enumerate(test.reports):
        yield ("report.json" if len(test.reports) == 1 else f"report-{number}.json"), artifact


def _has_failed(ended: TestFinished) -> bool:
    """Return whether a case failed; an aborted test has no cases."""
    return any(case.status == "failed" for case in ended.cases)


def _find_causes(
    scheduler: Scheduler, store: Store, failed: Iterable[TestAction]
) -> dict[DerivedArtifact | None, TestCase]:
    """Build the actions that search for causes of failed tests. Returns a case with each finding, by the artifact."""
    wanted = [action.bisect for action in failed if action.bisect is not None]
    if wanted:
        scheduler.build(wanted)
    return {artifact: _case(scheduler, store, artifact) for artifact in wanted}


def _case(scheduler: Scheduler, store: Store, artifact: DerivedArtifact) -> TestCase:
    culprit = scheduler.culprit([artifact])
    if culprit is not None:
        return TestCase("bisect", "failed", message=f"was aborted: {culprit or artifact.action} failed")
    value = scheduler.values.value(artifact)
    assert isinstance(value, FileEntry)
    try:
        finding = json.loads(store.read_bytes(value.digest))
        message, place = str(finding["message"]), str(finding.get("place", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message, place = f"malformed finding: {error}", ""
    return TestCase("bisect", "failed", message=one_line(message), place=one_line(place))


def _filterable(
    tests: list[tuple[ConfiguredTarget, TestAction]], reporter: Reporter
) -> list[tuple[ConfiguredTarget, TestAction]]:
    """Return the tests whose rules select cases. Raises UsageError if only other tests were requested."""
    able = [(target, action) for target, action in tests if action.filters]
    others = [target for target, action in tests if not action.filters]
    if others:
        problem = f"rule '{others[0].rule}' of {others[0].node.label} selects no cases by --test-filter"
        if not able:
            raise UsageError(problem)
        reporter.emit(Notice(f"{count(len(others), 'test')} not run: {problem}"))
    return able


def _matched(ends: Sequence[tuple[str, str]], test_filter: str, reporter: Reporter) -> list[bool]:
    """Return for each test whether a case matched, given its label and the reason if none did. Raises UsageError if no
    case of any test matched."""
    without = [(label, reason) for label, reason in ends if reason]
    if without and len(without) == len(ends):
        label, reason = min(without, key=lambda each: "did you mean" not in each[1])
        where = label if len(without) == 1 else f"{label} and {count(len(without) - 1, 'other test')}"
        raise UsageError(f"--test-filter: {where}: {reason}")
    if without:
        reporter.emit(Notice(f"{count(len(without), 'test')} without a case that matches '{test_filter}'"))
    return [not reason for _, reason in ends]


def _remember_devices(workspace: Workspace, tests: Iterable[TestFinished]) -> None:
    """Store measurements on devices: latencies, memory, temperatures and clocks, but not sizes of files."""
    runs = []
    for test in tests:
        measured = {name: value for name, value in test.measures.items() if name not in EXACT}
        if test.identity and measured:
            subject = TargetId.of(test.label, test.config)
            runs.append(DeviceRun(test.device, test.identity, subject, test.cached, measured))
    if runs:
        remember_runs(workspace.config.cache_dir, workspace.root, runs, find_head(workspace.root))
