"""Runs libraries that were compiled without a GPU on one, against eager mode, and times them beside torch.

    python benchmarks/cuda_libraries.py FOLDER SHIMS

FOLDER has a folder for each program of tests/rules/steps/cuda/programs.py, with library.so and weights.bin as
tests/rules/steps/cuda/compile_partition.py makes them, and io.pt: {"calls": inputs, "expected": outputs of eager
mode on the CPU}. SHIMS has libaoti_cuda_shims.so and libextension_cuda.so. Needs torch with CUDA; no torch of ours.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

TESTS = Path(__file__).parents[1] / "tests/rules/steps/cuda"
sys.path[:0] = [str(TESTS), str(TESTS / "emulator")]
ROUNDS, REPEATS = 5, 100


def main(folder: Path, shims: Path) -> int:
    from programs import PROGRAMS
    from run_library import Library

    torch.zeros(1, device="cuda")
    cuda = ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__} (eager and torch.compile), driver's CUDA")
    print(
        f"{'program':16} {'error':>9} {'allowed':>9} {'library':>9} {'eager':>9} {'compile':>9}   microseconds a call"
    )
    wrong = 0
    for program in sorted(path.parent for path in folder.glob("*/library.so")):
        name = program.name
        stored = torch.load(program / "io.pt")
        library = Library(shims, program, cuda)
        error = 0.0
        for given, expected in zip(stored["calls"], stored["expected"], strict=True):
            for got, right in zip(library.run(given), expected, strict=True):
                assert (got.shape, got.dtype) == (right.shape, right.dtype), name
                if got.numel():
                    error = max(error, float((got.double() - right.double()).abs().max()))
        wrong += not error <= PROGRAMS[name].tolerance

        inputs = stored["calls"][0]

        handles = [[library.to_device(each) for each in inputs] for _ in range(ROUNDS * REPEATS + 20)]

        def prepared(library: Any = library, handles: Any = handles) -> None:
            library.delete(library.launch(handles.pop()))

        times = [timed(prepared)]
        module = PROGRAMS[name].model().to(PROGRAMS[name].dtype).eval().cuda()
        device = [each.cuda() for each in inputs]
        with torch.no_grad():
            for call in (module, torch.compile(module)):
                times.append(timed(partial(call, *device)))
        shown = " ".join(f"{each * 1e6:9.1f}" for each in times)
        print(f"{name:16} {error:9.1e} {PROGRAMS[name].tolerance:9.1e} {shown}", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


def timed(call: Callable[[], Any]) -> float:
    """Seconds a call, the best round's mean."""
    for _ in range(20):
        call()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(REPEATS):
            call()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / REPEATS)
    return min(rounds)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
