"""The flags of `build`, `test` and `ci`, which are both options of the command line and keys of profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from modelbuild.workspace.remote_settings import DOWNLOADS, UPLOADS

MOST_JOBS = 10_000


MOST_RUNS = 10_000

# Values of --show-outputs: which built targets are listed.
SHOWN_OUTPUTS = ("none", "summary", "all")
# Values of --test-output: the tests whose printed text is shown.
TEST_OUTPUTS = ("summary", "errors", "all")
# The file of --target-pattern-file that stands for standard input.
STDIN = "-"

Kind: TypeAlias = Literal[
    "switch",
    "count",
    "choice",
    "text",
    "file",
    "input",
    "label",
    "toolchain",
    "duration",
    "address",
    "strategy",
    "runner",
]
# Values as the command line gives them: labels, durations, addresses, strategies and runners are text.
FlagValue: TypeAlias = bool | int | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: `--keep-going` on the command line, `keep_going` in a profile.

    short      its letter on the command line, or ''
    most       maximum of a count
    choices    allowed words of a choice
    repeated   whether it may be given several times; a profile has one value, or an array
    parameter  the name of its value in functions, if not the flag's
    default    the value if neither the command line nor a profile gives one
    also       Bazel's spelling of a switch's opposite
    """

    name: str
    kind: Kind
    help: str
    metavar: str = ""
    short: str = ""
    most: int = 0
    choices: tuple[str, ...] = ()
    repeated: bool = False
    parameter: str = ""
    default: FlagValue | None = None
    also: str = ""

    @property
    def key(self) -> str:
        """Return the flag's key in a profile."""
        return self.name.replace("-", "_")

    @property
    def argument(self) -> str:
        return self.parameter or self.key


BUILD_FLAGS = (
    Flag("device", "label", "Build for this device; may be repeated for several devices.", "LABEL", repeated=True,
         parameter="devices"),
    Flag("runner", "runner", "Reach a device by local:, qemu:ARCH or ssh://USER@HOST.", "LABEL=ADDRESS", repeated=True,
         parameter="runners"),
    Flag("toolchain", "toolchain", "Run steps in this toolchain; 'installed': the Python of modelbuild.", "LABEL"),
    Flag("jobs", "count", "Number of actions that run here at once.", short="j", most=MOST_JOBS),
    Flag("keep-going", "switch", "Continue with unaffected actions.", short="k"),
    Flag("action-timeout", "duration", "Fail actions that run longer, such as '30 min'.", "DURATION"),
    Flag("sandbox-debug", "switch", "Keep the folders of failed actions."),
    Flag("verify-sources", "switch", "Read all sources, even if their times did not change."),
    Flag("show-outputs", "choice", "List no target, the first 20 with their outputs, or all.", choices=SHOWN_OUTPUTS),
    Flag("remote-cache", "address", "Share results over grpc[s]://, http[s]://, s3://, gs://, az:// or file://.",
         "ADDRESS"),
    Flag("remote-upload", "choice", "When to upload results to the remote cache.", choices=UPLOADS),
    Flag("remote-download", "choice", "Outputs to download from the remote cache.", choices=DOWNLOADS),
    Flag("remote-executor", "address", "Run actions on workers behind grpc[s]://.", "ADDRESS"),
    Flag("remote-jobs", "count", "Number of actions at the remote executor at once.", most=MOST_JOBS),
    Flag("strategy", "strategy", "Where a kind of action runs, such as compile=remote,local; '*': others.",
         "ACTION=PLACES", repeated=True, parameter="strategies"),
    Flag("quiet", "switch", "Print failures only.", short="q"),
    Flag("json", "switch", "Print one JSON object; messages go to stderr."),
)  # fmt: skip

# Flags of build, test and ci about the targets and the amount of work.
TARGET_FLAGS = (
    Flag("target-pattern-file", "input", "Read targets from a file, one a line; '-' is stdin.", "FILE",
         parameter="pattern_file"),
    Flag("build", "switch", "Run actions; without, print what would be built.", parameter="acts", default=True,
         also="--nobuild"),
)  # fmt: skip

# The output group of a target's files.
DEFAULT_GROUP = "default"

GROUP_FLAGS = (
    Flag("output-groups", "text", "Build these groups of the targets' files.", "NAME,...", parameter="groups",
         default=DEFAULT_GROUP),
)  # fmt: skip

# Files that a CI job keeps.
RECORDING_FLAGS = (
    Flag("build-event-json", "file", "Write each event as a line of JSON."),
    Flag("profile", "file", "Write a Chrome trace, for Perfetto.", parameter="trace"),
    Flag("junit", "file", "Write tests and failed actions as JUnit XML."),
    Flag("summary", "file", "Append a summary in Markdown to a file."),
    Flag("report", "file", "Write an HTML page: failures, times, actions with reasons, programs, tests."),
    Flag("github-annotations", "switch", "Print failures as GitHub's workflow commands.", default=False),
)

TEST_FLAGS = (
    Flag("cache-test-results", "switch", "Use results of earlier runs with the same key.", default=True,
         parameter="cache_results"),
    Flag("runs-per-test", "count", "Run each N times; all must pass.", most=MOST_RUNS, default=1),
    Flag("flaky-attempts", "count", "Attempts for a failing test.", most=MOST_RUNS, default=1),
    Flag("require-all", "switch", "Fail tests and cases that were not run.", default=False),
    Flag("bisect", "switch", "After a parity failure, find the first wrong node.", default=False),
    Flag("test-output", "choice", "Print the output of no test, of failed tests, or of all.", choices=TEST_OUTPUTS,
         parameter="output", default="errors"),
    Flag("test-filter", "text", "Only cases that match: pytest's -k or node ids, or names.", "EXPR",
         parameter="filter", default=""),
    Flag("test-tag-filters", "text", "Include or exclude tests by tag.", "TAG,-TAG", parameter="tags", default=""),
)  # fmt: skip

CI_FLAGS = (
    Flag("since", "text", "Only targets affected since the merge base of REF and HEAD.", "REF"),
    Flag("measures", "file", "Write sizes and latencies to FILE for later jobs."),
    Flag("base-measures", "file", "Compare with an earlier --measures in the summary and the report."),
)

FLAGS = (*BUILD_FLAGS, *TARGET_FLAGS, *GROUP_FLAGS, *RECORDING_FLAGS, *TEST_FLAGS, *CI_FLAGS)
