"""modelbuild's own kernels, compiled with the address and undefined-behaviour sanitizers: the cases of the tests of
kernels again. ExecuTorch's libraries are as they come."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.native.kernel_results import Run
from tests.runtime.native.test_native_counting_kernels import (  # noqa: F401  (collected here)
    test_a_kernel_computes_the_values_of_eager_mode as test_a_counting_kernel,
)
from tests.runtime.native.test_native_counting_kernels import (  # noqa: F401
    test_wrong_values_end_the_run_with_a_message,
)
from tests.runtime.native.test_native_kernels import (  # noqa: F401
    build,
    test_invalid_regions_end_the_run_with_a_message,
)
from tests.runtime.native.test_native_kernels import (  # noqa: F401
    test_a_kernel_computes_the_values_of_eager_mode as test_a_kernel,
)
from tests.runtime.native.test_native_recurrent_kernels import (  # noqa: F401
    test_a_recurrent_kernel_computes_the_values_of_eager_mode as test_a_recurrent_kernel,
)

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.xdist_group("sanitizers")]


@pytest.fixture(scope="module")
def modelbuild_run(builder: Any, repository: Path) -> Run:
    """Return a function that runs a sanitized modelbuild-run, and fails for a report of a sanitizer."""
    folder = builder.build(
        repository / "build/runtime-address",
        "address,undefined",
        tests=True,
        targets=["modelbuild-run", "modelbuild_kernels"],
    )

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "ASAN_OPTIONS": "detect_leaks=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        command = [str(folder / "bin/modelbuild-run"), *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert "Sanitizer" not in done.stderr, done.stderr
        assert "runtime error" not in done.stderr, done.stderr
        return done

    return run
