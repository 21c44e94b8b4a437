"""py_test: Python tests that pytest runs in the sandbox."""

from __future__ import annotations

from pydantic import Field

from modelbuild.api import Context, Output, Provider, Sources, TestAction, rule
from modelbuild_rules.distributions import Distribution
from modelbuild_rules.testing.attributes import TestAttrs, resources, seconds


class PyTestAttrs(TestAttrs):
    """Tests that pytest finds in `test_*.py` and `*_test.py` among the sources."""

    srcs: Sources
    """Python files: tests, `conftest.py`, and modules that they import by workspace path or, in one folder, by name."""

    data: Sources = ()
    """Other files that the code reads: files of the workspace at their paths, files of targets at
    `PACKAGE/TARGET/NAME`, as below `modelbuild-out/DEVICE`."""

    requires: tuple[Distribution, ...] = ()
    """Distributions that the code uses without import statements."""

    plugins: tuple[str, ...] = ()
    """pytest plugins to load, by module; `requires` names their distributions. No other plugin is loaded."""

    args: tuple[str, ...] = ()
    """Additional arguments for pytest."""

    shard_count: int = Field(default=1, ge=1, le=100)
    """Number of parallel actions that share the tests."""


EXAMPLE = """
[[py_test]]
name = "net_py_test"
srcs = ["test_net.py", "net.py"]
"""


@rule(attrs=PyTestAttrs, example=EXAMPLE)
def py_test(ctx: Context[PyTestAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    selected = {"filter": ctx.test_filter} if ctx.test_filter else {}
    reports = tuple(
        ctx.action(
            "test",
            name=f"test:{shard}" if attrs.shard_count > 1 else "test",
            step="py_test",
            inputs={"srcs": ctx.files(attrs.srcs), "data": ctx.files(attrs.data)},
            outputs=[Output("report", "report.json")],
            params={
                "args": list(attrs.args),
                "plugins": list(attrs.plugins),
                "shard": [shard, attrs.shard_count],
                **selected,
            },
            unkeyed={"timeout": seconds(attrs)},
            tools=("pytest", "pluggy", "iniconfig", "packaging", "pygments", *attrs.requires),
            python=("srcs",),
            data=("data",),
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            preload=("pytest",),
            resources=resources(attrs),
            description=f"shard {shard + 1} of {attrs.shard_count}" if attrs.shard_count > 1 else "",
        )["report"]
        for shard in range(attrs.shard_count)
    )
    return (TestAction(reports, flaky=attrs.flaky, filters=True),)
