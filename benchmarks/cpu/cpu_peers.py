"""Time models on the CPU side by side: programs of modelbuild, ONNX Runtime, OpenVINO, eager mode and torch.compile.

    pip install --no-deps --require-hashes --target build/cpu-peers --requirement benchmarks/tools/cpu.lock
    python benchmarks/cpu/cpu_peers.py [--stack xnnpack] [--threads 2] [--turns 5] [--folder FOLDER] [--int8] [MODEL...]

A MODEL is one of cpu_models.py. Each way is a process with as many threads, which takes turns with the others: a turn
lasts about a second, or three calls, while the other processes are stopped, since idle threads of some runtimes wait
for work in a loop. A figure is the median of all turns' medians. Times are of a call with the input and the output in
memory; all compute in float32. A way whose output differs from eager mode's by more than a thousandth of its greatest
value has no figure.

With --int8, each model is also quantized to 8 bits by static ranges of the same eight inputs: by modelbuild, and for
both other runtimes by ONNX Runtime's quantization tools (with ranges for each channel of weights). torch's figures
remain those of float32. The last column is the mean error of each, in parts of the mean absolute value.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PEERS = REPOSITORY / "build/cpu-peers"
WAYS = ("modelbuild", "onnxruntime", "openvino", "eager", "compile")
OTHERS = ("onnxruntime", "openvino")
SECONDS = 1.0

INT8 = """
[[dataset]]
name = "{name}_inputs"
entry = "cpu_models.py:inputs"
kwargs = {{ name = "{name}" }}

[[quantized_model]]
name = "{name}_int8_model"
model = ":{name}_model"
recipe = {{ type = "xnnpack" }}
calibration = ":{name}_inputs"

[[pte_program]]
name = "{name}_int8"
model = ":{name}_int8_model"
stack = {stack}
"""

PROGRAM = """
[[torch_model]]
name = "{name}_model"
entry = "cpu_models.py:make"
kwargs = {{ name = "{name}" }}
inputs = [{{ name = "x", shape = {shape}, {dtype} }}]

[[pte_program]]
name = "{name}"
model = ":{name}_model"
stack = {stack}
"""


def build(folder: Path, stack: Sequence[str], names: Sequence[str], int8: bool) -> None:
    """Build the programs, and write each model as ONNX, its input, and its output in eager mode."""
    import torch
    from cpu_models import MODELS, example, make

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MODELBUILD.toml").touch()
    (folder / "cpu_models.py").write_bytes((HERE / "cpu_models.py").read_bytes())
    declared = []
    for name in names:
        model = MODELS[name]
        ids = f'dtype = "int64", range = [0, {model.vocabulary - 1}]'
        dtype = ids if model.vocabulary else 'dtype = "float32"'
        declared.append(PROGRAM.format(name=name, shape=list(model.shape), dtype=dtype, stack=json.dumps(stack)))
        declared.append(INT8.format(name=name, stack=json.dumps(stack)) if int8 else "")
    (folder / "BUILD.toml").write_text("\n".join(declared))
    command = [sys.executable, "-m", "modelbuild", "-C", folder, "build", "--keep-going"]
    subprocess.run([*command, *(f"//:{name}{'_int8' * int8}" for name in names)], check=True)
    (folder / "expected").mkdir(exist_ok=True)
    for name in names:
        x = example(name)
        with torch.no_grad():
            np.savez(folder / f"expected/{name}.npz", x=x.numpy(), y=make(name)(x).numpy())
        exported = torch.onnx.export(make(name), (x,), dynamo=True, optimize=True, verbose=False)
        assert exported is not None
        exported.save(folder / f"{name}.onnx")
        if int8:
            quantize(folder, name)


def quantize(folder: Path, name: str) -> None:
    """Quantize an ONNX model to 8 bits: unsigned activations, with which ONNX Runtime is three times as fast here."""
    from cpu_models import inputs
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = inputs(name)

        def get_next(self) -> dict[str, Any] | None:
            found = next(self._left, None)
            return None if found is None else {"x": found["x"].numpy()}

    unsigned = quantization.QuantType.QUInt8
    prepared_file = folder / f"{name}.prepared.onnx"
    quant_pre_process(folder / f"{name}.onnx", prepared_file)
    quantization.quantize_static(
        prepared_file, folder / f"{name}_int8.onnx", Reader(), per_channel=True, activation_type=unsigned
    )


def compare(folder: Path, threads: int, turns: int, names: Sequence[str], int8: bool) -> None:
    """Print a line for each model, and the geometric means."""
    print(f"{processor()}, {threads} threads; {', '.join(versions())}")
    print(f"| model | {' | '.join(WAYS)} | to the best runtime | to torch's best |{' errors |' * int8}")
    print("| --- " * (len(WAYS) + 3 + int8) + "|")
    ratios: list[tuple[float, float]] = []
    for name in names:
        line, found = row(folder, threads, turns, name, int8)
        ratios.append(found)
        print(line, flush=True)
    for each in zip(*ratios, strict=True):
        known = [ratio for ratio in each if not math.isnan(ratio)]
        print(f"geometric mean of {len(known)}: {statistics.geometric_mean(known):.2f}")


def row(folder: Path, threads: int, turns: int, name: str, int8: bool) -> tuple[str, tuple[float, float]]:
    """Return a model's line, and the ratios to the best of the other runtimes and of torch."""
    processes = {way: start(folder, threads, name, way, int8) for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    problems, errors = [], []
    try:
        for way, process in processes.items():
            said = answer(process)
            errors += [f"{said['error']:.3f}"] if int8 and way in ("modelbuild", *OTHERS) and "error" in said else []
            if said.get("problem"):
                problems.append(f"{way}: {said['problem']}")
        for process in processes.values():
            process.send_signal(signal.SIGSTOP)
        for _ in range(turns):
            for way, process in processes.items():
                if process.poll() is None:
                    assert process.stdin is not None
                    process.send_signal(signal.SIGCONT)
                    process.stdin.write("go\n")
                    process.stdin.flush()
                    times[way] += [answer(process)["ms"]] if process.poll() is None else []
                    process.send_signal(signal.SIGSTOP)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    middle = {way: statistics.median(found) if found else math.nan for way, found in times.items()}
    least = lambda ways: min((middle[way] for way in ways if times[way]), default=math.nan)  # noqa: E731
    ratios = middle["modelbuild"] / least(OTHERS), middle["modelbuild"] / least(("eager", "compile"))
    cells = [*(f"{middle[way]:.1f}" for way in WAYS), *(f"{ratio:.2f}" for ratio in ratios)]
    cells += [", ".join(errors)] if int8 else []
    return f"| {name} | {' | '.join(cells)} | {'; '.join(problems)}", ratios


def start(folder: Path, threads: int, name: str, way: str, int8: bool) -> subprocess.Popen[str]:
    """Start a process that prepares a model, answers, and then answers each line with the time of a call."""
    log = (folder / f"{name}.{way}.log").open("w")
    numbers = {variable: str(threads) for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    paths = {"PYTHONPATH": str(PEERS)} if way in OTHERS else {}
    return subprocess.Popen(
        [
            *(sys.executable, __file__, "--way", way, "--threads", str(threads), "--folder", str(folder), name),
            *(["--int8"] if int8 else []),
        ],
        env={**os.environ, **numbers, **paths},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
    )


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    found: dict[str, Any] = json.loads(line) if line else {"problem": "ended", "ms": math.nan}
    return found


# -- in a process of a way ------------------------------------------------------------------------------------------


def serve(folder: Path, threads: int, name: str, way: str, int8: bool) -> None:
    """Answer that the model is ready, or the problem; then each line with the median milliseconds of a call."""
    answers = os.fdopen(os.dup(1), "w")  # what libraries print goes to the log
    os.dup2(2, 1)
    given = np.load(folder / f"expected/{name}.npz")
    x, y = given["x"], given["y"]
    quantized = int8 and way in ("modelbuild", *OTHERS)
    call = prepared(folder, threads, f"{name}_int8" if quantized else name, way, x)
    found, problem = np.asarray(call()), ""
    if found.shape != y.shape or not (quantized or np.abs(found - y).max() <= np.abs(y).max() / 1000):
        problem = "other results than eager mode's"
    error = float(np.abs(found - y).mean() / np.abs(y).mean()) if not problem else math.nan
    print(json.dumps({"problem": problem, "error": error}), file=answers, flush=True)
    if problem:
        return
    began = time.perf_counter()
    call()
    repeat = max(3, int(SECONDS / (time.perf_counter() - began)))
    for _ in sys.stdin:
        times = []
        for _ in range(repeat):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        print(json.dumps({"ms": 1e3 * statistics.median(times)}), file=answers, flush=True)


def prepared(folder: Path, threads: int, name: str, way: str, x: Any) -> Callable[[], Any]:
    """Return a call of a model."""
    if way == "modelbuild":
        import modelbuild_runtime

        (pte,) = folder.glob(f"modelbuild-out/*/{name}/{name}.pte")
        program = modelbuild_runtime.load(pte, threads=threads)
        return lambda: next(iter(program.run({"x": x}).values()))
    if way == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
        (port,) = session.get_inputs()
        return lambda: session.run(None, {port.name: x})[0]
    if way == "openvino":
        import openvino

        config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        compiled = openvino.compile_model(openvino.convert_model(folder / f"{name}.onnx"), "CPU", config)
        request = compiled.create_infer_request()
        return lambda: request.infer([x], share_inputs=True, share_outputs=True)[0]
    import torch
    from cpu_models import make

    torch.set_num_threads(threads)
    module, tensor = make(name), torch.from_numpy(x)
    compiled_module = torch.compile(module) if way == "compile" else module

    def call() -> Any:
        with torch.no_grad():
            return compiled_module(tensor).numpy()

    return call


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def versions() -> list[str]:
    return [f"{name} {metadata.version(name)}" for name in ("modelbuild", "executorch", "torch", *OTHERS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", nargs="+", default=["xnnpack", "portable"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build/cpu")
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    given = parser.parse_args()
    if given.way:
        serve(given.folder, given.threads, given.models[0], given.way, given.int8)
        return
    sys.path.append(str(PEERS))
    from cpu_models import MODELS

    names = given.models or list(MODELS)
    build(given.folder.resolve(), given.stack, names, given.int8)
    compare(given.folder.resolve(), given.threads, given.turns, names, given.int8)


if __name__ == "__main__":
    main()
