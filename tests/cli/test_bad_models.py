"""Wrong attributes of the rules for models, backends and devices: one line with the place, and exit code 3."""

from __future__ import annotations

from typing import Any

import pytest

X = 'inputs = [{ name = "x", shape = [2, 3], dtype = "float32" }]'
MODEL = f'[[torch_model]]\nname = "m"\nentry = "m.py:M"\n{X}\n'
STACK = '[[backend_stack]]\nname = "s"\nbackends = ["portable"]\n'
DEVICE = '[[device_target]]\nname = "cpu"\narch = "x86_64"\n'
PROGRAM = '[[pte_program]]\nname = "p"\nmodel = ":m"\nstack = ":s"\n'
CALL = "expected arguments such as \"x, (a, b), mask=mask, mode='fast'\""


def inputs(line: str) -> str:
    return MODEL.replace(X, line)


def depends(size: str) -> str:
    line = 'inputs = [{ name = "x", shape = ["b"], dtype = "int8" }]'
    return inputs(f'{line}\ndynamic = {{ b = "{size}", c = {{ min = 1, max = 8 }} }}')


def stack(backends: str) -> str:
    return STACK.replace('["portable"]', backends)


# The text of BUILD.toml -> the line after `error: BUILD.toml:`.
MODELS = {
    "an input without a shape": (
        inputs('inputs = [{ name = "x", dtype = "float32" }]'),
        "4:13: input 'x': expected 'shape' and 'dtype', or 'file'",
    ),
    "no inputs": (inputs("inputs = []"), "4:1: expected either 'inputs', or 'methods' with inputs of their own"),
    "an unknown dtype": (
        inputs('inputs = [{ name = "x", shape = [2], dtype = "float23" }]'),
        "4:38: attribute 'inputs[0].dtype': expected 'bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float16', "
        "'bfloat16', 'float32' or 'float64', got 'float23'; did you mean 'float32'?",
    ),
    "a negative size": (
        inputs('inputs = [{ name = "x", shape = [2, -3], dtype = "float32" }]'),
        "4:25: input 'x': expected sizes of 0 or more, got -3",
    ),
    "half a size": (
        inputs('inputs = [{ name = "x", shape = [2, 3.5], dtype = "float32" }]'),
        "4:37: attribute 'inputs[0].shape[1]': expected an integer or a string, got 3.5",
    ),
    "an unknown dynamic dimension": (
        inputs(
            'inputs = [{ name = "x", shape = ["bacth"], dtype = "int8" }]\ndynamic = { batch = { min = 1, max = 8 } }'
        ),
        "4:25: input 'x': dimension 'bacth' is not in the table 'dynamic'; did you mean 'batch'?",
    ),
    "a dynamic dimension that no input has": (
        MODEL + "dynamic = { batch = { min = 1, max = 8 } }\n",
        "5:13: no input has the dimension 'batch'",
    ),
    "a dynamic dimension without an upper end": (
        inputs('inputs = [{ name = "x", shape = ["batch"], dtype = "int8" }]\ndynamic = { batch = { min = 1 } }'),
        "5:13: 'dynamic.batch' of torch_model 'm' lacks the attribute 'max'",
    ),
    "a dynamic dimension whose ends are swapped": (
        inputs('inputs = [{ name = "x", shape = ["b"], dtype = "int8" }]\ndynamic = { b = { min = 8, max = 1 } }'),
        "5:13: dimension 'b': expected min <= example <= max, got 8, 8 and 1",
    ),
    "a dynamic dimension that depends on none": (
        inputs('inputs = [{ name = "x", shape = ["b"], dtype = "int8" }]\ndynamic = { b = "8*c" }'),
        "5:13: dimension 'b': 'c' is not a dimension with min and max",
    ),
    "a dynamic dimension that is no sum": (
        depends("c/2"),
        '5:13: dimension \'b\': expected a multiple or sum of other dimensions, such as "8*h8" or "past + new"',
    ),
    "a dynamic dimension of less than nothing": (
        depends("c - 2"),
        "5:13: dimension 'b': expected a size of 0 or more, got -1 at the least",
    ),
    "two inputs of a name": (
        inputs('inputs = [{ name = "x", shape = [2], dtype = "int8" }, { name = "x", shape = [2], dtype = "int8" }]'),
        "4:58: attribute 'inputs': expected names, each once, got 'x'",
    ),
    "an input's range whose ends are swapped": (
        inputs('inputs = [{ name = "x", shape = [2], dtype = "float32", range = [1, 0] }]'),
        "4:57: input 'x': expected [lowest, highest], got [1.0, 0.0]",
    ),
    "an input's range of one number": (
        inputs('inputs = [{ name = "x", shape = [2], dtype = "float32", range = [1] }]'),
        "4:57: attribute 'inputs[0].range': expected more than 1 item, got [1]",
    ),
    "an input with a file and a dtype": (
        inputs('inputs = [{ name = "x", file = "m.py", dtype = "float32" }]'),
        "4:25: input 'x': a file has its own dtype and values; expected no 'dtype' and no 'range'",
    ),
    "an input's file of a wrong kind": (
        inputs('inputs = [{ name = "x", file = "m.py" }]'),
        "4:25: 'm.py': expected a file ending in .npy, .pt, .png",
    ),
    "an unknown attribute of an input": (
        inputs('inputs = [{ name = "x", shpae = [2], dtype = "float32" }]'),
        "4:25: unknown attribute 'shpae' of 'inputs[0]'; did you mean 'shape'?",
    ),
    "an entry without a name": (
        MODEL.replace("m.py:M", "m.py"),
        "3:1: attribute 'entry': expected 'file.py:name', got 'm.py'",
    ),
    "an entry in no file": (
        MODEL.replace("m.py:M", "n.py:M"),
        "3:1: no file 'n.py' in //; did you mean 'm.py'?",
    ),
    "a call without one of the inputs": (
        MODEL + 'call = "scale=2.0"\n',
        "5:1: attribute 'call': the input 'x' is not in the call; expected each input once",
    ),
    "a call with an input twice": (
        MODEL + 'call = "x, [x]"\n',
        "5:1: attribute 'call': the input 'x' is in the call twice; expected each input once",
    ),
    "a call with an unknown name": (
        MODEL.replace('"x"', '"image"') + 'call = "imgae"\n',
        "5:1: attribute 'call': 'imgae' is not an input; did you mean 'image'?",
    ),
    "a call with an expression": (
        MODEL + 'call = "x, n=print(1)"\n',
        f"5:1: attribute 'call': 'print(1)' is neither an input nor a constant; {CALL}",
    ),
    "a call that ends early": (MODEL + 'call = "x)(x"\n', f"5:1: attribute 'call': {CALL}"),
    "a call that Python does not read": (
        MODEL + 'call = "x, x=1, 2"\n',
        f"5:1: attribute 'call': positional argument follows keyword argument; {CALL}",
    ),
    "neither an entry nor an exported program": (
        MODEL.replace('entry = "m.py:M"\n', ""),
        "1:1: expected either 'entry' or 'exported'",
    ),
    "an entry and an exported program": (
        MODEL + 'exported = "w.npz"\n',
        "3:1: expected either 'entry' or 'exported'",
    ),
    "arguments of an exported program": (
        MODEL.replace('entry = "m.py:M"', 'exported = "w.npz"\nkwargs = { a = 1 }'),
        "4:1: 'kwargs' are arguments of an entry; expected none with 'exported'",
    ),
    "a preparation in no file": (
        MODEL + 'prepare = "n.py:run"\n',
        "5:1: no file 'n.py' in //; did you mean 'm.py'?",
    ),
    "weights in an unknown format": (
        MODEL + 'weights = { a = "w.safetensors", "b.c" = "w.npz" }\n',
        "5:34: 'w.npz': expected a file ending in .safetensors, .pt, .pth, .bin",
    ),
    "weights for what is no submodule": (
        MODEL + 'weights = { "a b" = "w.safetensors" }\n',
        "5:13: attribute 'weights': 'a b' is not a submodule's name",
    ),
    "weights from a target of two files": (
        MODEL + 'weights = ":two"\n[[filegroup]]\nname = "two"\nsrcs = ["m.py", "w.npz"]\n',
        "5:1: ':two' gives 2 files; expected one",
    ),
    "a seed in quotes": (MODEL + 'seed = "0"\n', "5:1: attribute 'seed': expected an integer, got '0'"),
}
BACKENDS_AND_DEVICES = {
    "an empty stack": (stack("[]"), "3:1: attribute 'backends': expected at least 1 item, got []"),
    "a backend without a type": (stack("[{}]"), "3:13: attribute 'backends[0]': expected a table with 'type'"),
    "an unknown attribute of a backend": (
        stack('[{ type = "xnnpack", per_op = true }]'),
        "3:33: unknown attribute 'per_op' of 'backends[0]'; did you mean 'per_op_mode'?",
    ),
    "portable that is not last": (
        stack('[{ type = "portable" }, { type = "xnnpack" }]'),
        "3:13: 'portable' takes all remaining nodes; expected it as the last backend",
    ),
    "what is no operator": (
        stack('[{ type = "xnnpack", exclude_ops = ["add"] }]'),
        "3:48: attribute 'backends[0].exclude_ops[0]': 'add' is not an operator; expected namespace.name.overload, as "
        "in aten.add.Tensor",
    ),
    "an unknown architecture": (
        DEVICE.replace("x86_64", "x86"),
        "3:1: attribute 'arch': expected 'x86_64' or 'aarch64', got 'x86'; did you mean 'x86_64'?",
    ),
    "a bad compute capability": (
        DEVICE + 'compute_capabilities = ["8.6", "sm_89"]\n',
        "4:32: attribute 'compute_capabilities[1]': 'sm_89' is not a compute capability; expected one such as '8.6'",
    ),
    "a compute capability twice": (
        DEVICE + 'compute_capabilities = ["8.6", "8.6"]\n',
        "4:1: a compute capability is listed twice; expected each once",
    ),
    "a GPU of a device without CUDA": (
        DEVICE + "gpu = 1\n",
        "4:1: gpu is set on a device without CUDA; expected compute_capabilities as well",
    ),
    "a bad amount of memory": (
        DEVICE + 'memory = "8G"\n',
        "4:1: attribute 'memory': expected a size such as \"20GiB\" or \"500 MB\", or bytes, got '8G'",
    ),
    "a bad version of glibc": (
        DEVICE + 'min_glibc = "3"\n',
        "4:1: attribute 'min_glibc': '3' is not a version of glibc; expected one such as '2.31'",
    ),
}
PROGRAMS = {
    "a model that is none": (
        PROGRAM.replace('":m"', '":s"') + STACK,
        "3:1: ':s' is a backend_stack; expected a target of torch_model or quantized_model",
    ),
    "a stack that is none": (
        PROGRAM.replace('":s"', '":cpu"') + MODEL + DEVICE,
        "4:1: ':cpu' is a device_target; expected a target of backend_stack",
    ),
    "a stack that is the model": (
        PROGRAM.replace('":s"', '":m"') + MODEL + DEVICE,
        "4:1: ':m' is a torch_model; expected a target of backend_stack",
    ),
    "a device that is none": (
        PROGRAM + 'device = ":s"\n' + MODEL + STACK,
        "5:1: //:s is a backend_stack, not a device",
    ),
    "a device that TensorRT cannot build for": (
        PROGRAM + 'device = ":cpu"\n' + MODEL + stack('[{ type = "tensorrt" }]') + DEVICE,
        '4:1: TensorRT needs a device with compute_capabilities; expected one such as ["8.9"] (device //:cpu, stack'
        " :s)",
    ),
    "no device where one is needed": (
        PROGRAM + MODEL + stack('[{ type = "tensorrt" }]'),
        "1:1: no device for //:p: expected the attribute 'device', --device, or default_device in MODELBUILD.toml",
    ),
}
TABLE = {**MODELS, **BACKENDS_AND_DEVICES, **PROGRAMS}


@pytest.mark.sampled
@pytest.mark.parametrize("case", TABLE)
def test_one_line_for(workspace: Any, case: str) -> None:
    build, line = TABLE[case]
    workspace.write({"MODELBUILD.toml": "", "m.py": "", "w.npz": "", "w.safetensors": "", "BUILD.toml": build})
    ended = workspace.run("build", "//...")
    assert (ended.err, ended.out, ended.code) == (f"error: BUILD.toml:{line}\n", "", 3)
