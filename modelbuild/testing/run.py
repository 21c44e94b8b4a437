"""Build the dependencies of tests, run them, and report their results."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from modelbuild.actions import Action, Artifact, DerivedArtifact, FileEntry
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.api.providers import TestAction
from modelbuild.build.engine import Engine, open_engine
from modelbuild.build.execute import run_actions
from modelbuild.build.plan import Plan, analyze, config_name, opened
from modelbuild.build.plan_only import Choice, plan_only
from modelbuild.build.record_history import record_history
from modelbuild.build.request import Request, Result
from modelbuild.build.retry import retry_without_remote
from modelbuild.build.snapshot import Seen
from modelbuild.errors import ExitCode, UsageError
from modelbuild.events import BuildFinished, Notice, Reporter, TestFinished
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.history.action_facts import attributes_of
from modelbuild.ids import TargetId
from modelbuild.store.output_tree import OutputStamp, lay_out, make_root
from modelbuild.testing.causes import find_causes, has_failed
from modelbuild.testing.executor import Attempts, TestExecutor, output_text
from modelbuild.testing.filter import Tests, filterable, matched
from modelbuild.testing.record_results import ResultRecorder
from modelbuild.testing.report import TestReport, merge, read_report, require_all
from modelbuild.testing.select import select_tests, test_of
from modelbuild.wording import count
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace


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

    def purpose(self) -> str:
        """Return what distinguishes records of tests, see Request.purpose: a part of the cases is no whole result."""
        return json.dumps(["test", self.tags, self.filter])


@dataclass(frozen=True, slots=True)
class Tested:
    """The exit code, and the text to print while nothing changes; '' if the tests must run again."""

    code: ExitCode
    text: str = ""


# Number of attempts for a test that its rule declares flaky.
FLAKY = 3


@dataclass(frozen=True, slots=True)
class _Session:
    """The objects for one run of tests. The targets of the plan are built besides. `requested`: whether the command
    line names the tests, so that each must run."""

    workspace: Workspace
    options: TestOptions
    analyzer: Analyzer
    engine: Engine
    executor: TestExecutor
    plan: Plan
    requested: bool
    laid_out: dict[str, OutputStamp] = field(default_factory=dict)


def run_tests(
    workspace: Workspace,
    request: Request,
    options: TestOptions,
    reporter: Reporter,
    started: float | None = None,
    recorder: ResultRecorder | None = None,
    build_all: bool = False,
) -> Tested:
    """Run the tests of a request. Raises ModelbuildError for errors before any action runs, and UsageError if there is
    no test.

    started    start of the command (time.monotonic())
    recorder   records results that will be cached the next time
    build_all  whether all targets of the request are built too; then tests are optional
    """
    began = time.monotonic() if started is None else started

    def work(request: Request, reporter: Reporter) -> Tested:
        return _once(workspace, request, options, reporter, began, recorder, build_all)

    return retry_without_remote(work, request, reporter)


def _once(
    workspace: Workspace,
    request: Request,
    options: TestOptions,
    reporter: Reporter,
    started: float,
    recorder: ResultRecorder | None,
    build_all: bool,
) -> Tested:
    make_root(workspace.root / OUTPUT_FOLDER)
    plan, pairs = _planned(workspace, request, options, reporter, build_all)
    analyzer = plan.analyzer
    reports: dict[str, str] = {artifact.action: artifact.output for _, test in pairs for artifact in test.reports}
    attempts: dict[str, int] = {
        artifact.action: max(options.flaky_attempts, FLAKY if test.flaky else 1)
        for _, test in pairs
        for artifact in test.reports
    }
    with open_engine(workspace, request, analyzer, reporter) as engine:
        executor = TestExecutor(engine.executor, engine.store, reports, attempts, options.runs_per_test)
        session = _Session(
            workspace,
            options,
            analyzer,
            engine,
            executor,
            plan if build_all else replace(plan, targets=()),
            not build_all,
        )
        tested = _run(session, pairs, list(reports), started, recorder)
    reporter.emit(BuildFinished(time.monotonic() - started, exit=tested.code))
    return tested


def plan_tests(
    workspace: Workspace, request: Request, options: TestOptions, reporter: Reporter, build_all: bool = False
) -> ExitCode:
    """Report the tests that run_tests() would run, and their actions; run none. Raises what run_tests() does."""

    def choose(plan: Plan) -> Choice:
        pairs = _tests(plan, request, options, reporter, build_all)
        others = plan.targets if build_all else ()
        wanted = [artifact for target in others for artifact in target.files()]
        wanted += [artifact for _, test in pairs for artifact in test.reports]
        return list({target.id: target for target in (*others, *(target for target, _ in pairs))}.values()), wanted

    return plan_only(workspace, request, reporter, choose, options.filter)


def _planned(
    workspace: Workspace, request: Request, options: TestOptions, reporter: Reporter, build_all: bool
) -> tuple[Plan, Tests]:
    plan = analyze(opened(workspace, request, reporter, options.filter), request, reporter)
    return plan, _tests(plan, request, options, reporter, build_all)


def _tests(plan: Plan, request: Request, options: TestOptions, reporter: Reporter, build_all: bool) -> Tests:
    """Return the tests among a plan's targets. Raises UsageError if there is none."""
    tests = select_tests(plan.analyzer, plan.targets, options.tags)
    if not tests and not build_all and not plan.incomplete:
        raise UsageError(f"no test in {' '.join(request.patterns)}")
    pairs = [(target, action) for target in tests if (action := test_of(target)) is not None]
    return filterable(pairs, reporter) if options.filter else pairs


def _run(
    session: _Session,
    tests: Sequence[tuple[ConfiguredTarget, TestAction]],
    reports: Sequence[str],
    started: float,
    recorder: ResultRecorder | None,
) -> Tested:
    afresh = reports if not session.options.cache_results or session.options.runs_per_test > 1 else ()
    scheduler = session.engine.scheduler(session.analyzer, session.executor, afresh)
    reporter = session.engine.reporter
    wanted = {str(target.node.label): list[Artifact]() for target, _ in tests}
    for target, action in tests:
        wanted[str(target.node.label)] += action.reports
    made = run_actions(session.workspace, session.engine, session.plan, scheduler, Seen(), wanted)
    failed, unbuilt = False, len(made.targets) < len(session.plan.targets)
    measures: dict[tuple[str, str], float] = {}
    if unbuilt and not session.engine.request.keep_going:
        tests = ()
    ends = [_finished(session, scheduler, target, action) for target, action in tests]
    if session.options.filter:
        kept = matched([(ended.label, unmatched) for ended, _, unmatched in ends], session.options.filter, reporter)
        tests = [test for test, keep in zip(tests, kept, strict=True) if keep]
        ends = [end for end, keep in zip(ends, kept, strict=True) if keep]
    wrong = [action for (ended, built, _), (_, action) in zip(ends, tests, strict=True) if built and has_failed(ended)]
    causes = find_causes(scheduler, session.engine.store, wrong) if session.options.bisect else {}
    for (ended, built, _), (_, action) in zip(ends, tests, strict=True):
        cause = causes.get(action.bisect)
        reporter.emit(replace(ended, cases=(*ended.cases, cause)) if cause else ended)
        unbuilt |= not built
        failed |= ended.status == "failed"
        if not session.options.filter:  # measures of a part are not comparable with those of the whole
            measures.update(
                ((TargetId.of(ended.label, ended.config), name), value) for name, value in ended.measures.items()
            )
    end = ExitCode.BUILD_FAILED if unbuilt else ExitCode.TESTS_FAILED if failed else ExitCode.OK
    idle = sum(ended.status == "not_run" for ended, _, _ in ends) if session.requested else 0
    if end is ExitCode.OK and idle:
        end = ExitCode.ENVIRONMENT
        reporter.emit(
            Notice(
                f"{count(idle, 'test')} did not run here: expected what the reasons name, or a choice of"
                " other tests, as by --test-tag-filters=-TAG"
            )
        )
    end = end.with_loading_errors() if session.plan.incomplete else end
    result = Result(made.targets, end, len(scheduler.report.keys))
    record_history(
        session.workspace,
        attributes_of(session.analyzer),
        scheduler,
        session.engine.code,
        result,
        time.monotonic() - started,
        measures,
    )
    if any(ended.identity for ended, _, _ in ends) and not session.options.filter:
        from modelbuild.testing.device_history import remember_devices

        remember_devices(session.workspace, [ended for ended, _, _ in ends])
    text = ""
    if recorder is not None and end == ExitCode.OK and not afresh and not _on_device(scheduler, tests):
        laid_out = [_laid_out(target, action) for target, action in tests]
        passed = list(zip((ended for ended, _, _ in ends), laid_out, strict=True))
        text = recorder.keep(session.analyzer, session.engine.sources, scheduler, passed, session.laid_out)
    return Tested(end, text)


def _on_device(scheduler: Scheduler, tests: Sequence[tuple[ConfiguredTarget, TestAction]]) -> bool:
    """Return whether a test runs on a device: a record can't show that the device is the same as before."""
    actions = (scheduler.graph.nodes[report.action] for _, test in tests for report in test.reports)
    return any(isinstance(each, Action) and each.device is not None for each in actions)


def _finished(
    session: _Session, scheduler: Scheduler, target: ConfiguredTarget, action: TestAction
) -> tuple[TestFinished, bool, str]:
    """Return a test's result, whether all its dependencies were built, and the reason if a filter selected no case."""
    found = [_report(session, scheduler, artifact) for artifact in action.reports]
    ended = [session.executor.ended.get(artifact.action) for artifact in action.reports]
    report = merge([report for report, _ in found]) if found else TestReport("not_run", unmatched=action.unmatched)
    unmatched = report.unmatched
    if session.options.require_all:
        report = require_all(report)
    ran = [each for each in ended if each is not None]
    label = target.node.label
    device, identity = _device(scheduler, action)
    if all(built for _, built in found):
        session.laid_out.update(_lay_out(session, scheduler, target, action))
    finished = TestFinished(
        str(label),
        config_name(target.device),
        report.status,
        report.reason,
        seconds=sum(each.seconds for each in ran),
        cached=not ran and all(built for _, built in found),
        attempts=max((each.runs for each in ran), default=1),
        passed=min((each.passed for each in ran), default=0),
        cases=report.cases,
        location=str(session.analyzer.loader.target(label).location()),
        measures=report.measures,
        output=_output(session, scheduler, action),
        device=device,
        identity=identity,
        shown=session.options.output != "summary",
    )
    return finished, all(built for _, built in found), unmatched


def _device(scheduler: Scheduler, test: TestAction) -> tuple[str, Mapping[str, str]]:
    """Return the device that a test's program runs on, and what it states about itself; '' and nothing if there is no
    device."""
    for report in test.reports:
        action = scheduler.graph.nodes.get(report.action)
        if isinstance(action, Action) and action.device is not None:
            material = scheduler.report.materials.get(report.action)
            return action.device.label, material.get("device", {}) if material is not None else {}
    return "", {}


def _output(session: _Session, scheduler: Scheduler, action: TestAction) -> str:
    """Return the printed text of a test's failed runs, or with --test-output=all of all its runs and cached results."""
    texts: list[str] = []
    for artifact in action.reports:
        ended = session.executor.ended.get(artifact.action)
        result = scheduler.report.results.get(artifact.action)
        if ended is not None and (ended.report.status == "failed" or session.options.output == "all"):
            texts.append(ended.output)
        elif ended is None and result is not None and session.options.output == "all":
            texts.append(scheduler.keeping(partial(output_text, session.engine.store, result)))
    return "".join(texts)


def _report(session: _Session, scheduler: Scheduler, artifact: DerivedArtifact) -> tuple[TestReport, bool]:
    """Return a shard's report, and whether its dependencies were built."""
    ended: Attempts | None = session.executor.ended.get(artifact.action)
    if ended is not None:
        return ended.report, True
    culprit = scheduler.culprit([artifact])
    if culprit is not None:
        return TestReport("failed", f"not built: {culprit} failed" if culprit else "not built"), False
    value = scheduler.values.value(artifact)
    assert isinstance(value, FileEntry)
    return read_report(session.engine.store.read_bytes(value.digest)), True


def _lay_out(
    session: _Session, scheduler: Scheduler, target: ConfiguredTarget, action: TestAction
) -> Mapping[str, OutputStamp]:
    """Lay out the reports among the targets' outputs, and return their stamps."""
    values = {
        name: scheduler.values.value(artifact)
        for name, artifact in _named(action)
        if scheduler.culprit([artifact]) is None
    }
    root = session.workspace.root / OUTPUT_FOLDER
    laid = scheduler.keeping(partial(lay_out, session.engine.store, root, _folder(target), values))
    return {f"{OUTPUT_FOLDER}/{path}": each for path, each in laid.items()}


def _laid_out(target: ConfiguredTarget, action: TestAction) -> list[str]:
    """Return the paths of a test's reports in the workspace."""
    return [f"{OUTPUT_FOLDER}/{_folder(target)}/{name}" for name, _ in _named(action)]


def _folder(target: ConfiguredTarget) -> str:
    label = target.node.label
    return "/".join(part for part in (config_name(target.device), label.package, label.name) if part)


def _named(action: TestAction) -> Iterator[tuple[str, DerivedArtifact]]:
    for number, artifact in enumerate(action.reports):
        yield ("report.json" if len(action.reports) == 1 else f"report-{number}.json"), artifact
