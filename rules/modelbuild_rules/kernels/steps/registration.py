"""Write the C++ that connects a library's kernels to ExecuTorch: their declarations, which every source of the library
includes, and functions that unpack a program's arguments. Torch-free."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from modelbuild.step import StepError

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import KernelArgument, KernelOperator

# The type of a parameter, the check and the reading of `v`, an EValue, by the type in a schema.
_TYPES = {
    "Tensor": ("const Tensor&", "v.isTensor()", "v.toTensor()"),
    "Tensor?": ("const std::optional<Tensor>&", "v.isNone() || v.isTensor()", "v.toOptional<Tensor>()"),
    "Tensor[]": ("ArrayRef<Tensor>", "v.isTensorList()", "v.toTensorList()"),
    "Tensor?[]": ("ArrayRef<std::optional<Tensor>>", "v.isListOptionalTensor()", "v.toListOptionalTensor()"),
    "int": ("int64_t", "v.isInt()", "v.toInt()"),
    "float": ("double", "v.isDouble() || v.isInt()", "v.toScalar().to<double>()"),
    "bool": ("bool", "v.isBool()", "v.toBool()"),
    "str": ("std::string_view", "v.isString()", "v.toString()"),
    "Scalar": ("const Scalar&", "v.isScalar()", "v.toScalar()"),
    "ScalarType": ("ScalarType", "v.isInt()", "v.toScalarType()"),
    "int[]": ("ArrayRef<int64_t>", "v.isIntList()", "v.toIntList()"),
    "float[]": ("ArrayRef<double>", "v.isDoubleList()", "v.toDoubleList()"),
    "bool[]": ("ArrayRef<bool>", "v.isBoolList()", "v.toBoolList()"),
}

_DECLARATIONS = """\
#pragma once

#include <executorch/runtime/kernel/kernel_includes.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace modelbuild_kernel_types {
using executorch::aten::ArrayRef;
using executorch::aten::Scalar;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;
}  // namespace modelbuild_kernel_types

"""

_REGISTRATION = """\
#include "declarations.hpp"

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <cstring>
#include <exception>

namespace {

using namespace modelbuild_kernel_types;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Kernel;
using Arguments = executorch::runtime::Span<EValue*>;

// Registers a kernel, unless the process has one: a second kernel of a name would end it.
struct Registration {
  Registration(const char* name, executorch::runtime::OpFunction function) {
    for (const Kernel& known : executorch::runtime::get_registered_kernels()) {
      if (std::strcmp(known.name_, name) == 0) return;
    }
    const Error ignored = executorch::runtime::register_kernel(Kernel(name, function));
    (void)ignored;  // always Ok
  }
};

bool fits(KernelRuntimeContext& context, bool right, const char* schema) {
  if (!right) {
    ET_LOG(Error, "the program's arguments are not those of the kernel library's schema, %s", schema);
    context.fail(Error::InvalidArgument);
  }
  return right;
}

template <typename Function>
void guarded(KernelRuntimeContext& context, const char* name, Function&& kernel) {
  try {
    kernel();
  } catch (const std::exception& error) {
    ET_LOG(Error, "%s: %s", name, error.what());
    context.fail(Error::Internal);
  }
}
"""


def function_of(operator: KernelOperator) -> str:
    """Return the C++ function of an operator: "my_ops::scale_out" for "my_ops::scale.out"."""
    return operator["name"].replace(".", "_")


def signature(operator: KernelOperator) -> str:
    """Return the declaration of an operator's C++ function, with its schema's names of arguments. Raises StepError for
    an argument of a type that kernels cannot have."""
    arguments = [f"{_parameter(operator, each)} {each['name']}" for each in operator["arguments"]]
    return f"{_returned(operator)} {function_of(operator)}({', '.join(['KernelRuntimeContext& context', *arguments])})"


def declarations(operators: Sequence[KernelOperator]) -> str:
    """Return the header with the functions of all operators."""
    return _DECLARATIONS + "".join(map(_declaration, operators))


def registration(operators: Sequence[KernelOperator]) -> str:
    """Return the source that registers the kernels when the library is loaded."""
    return _REGISTRATION + "".join(map(_call, operators, range(len(operators)))) + "\n}  // namespace\n"


def _declaration(operator: KernelOperator) -> str:
    namespace, _, name = function_of(operator).partition("::")
    types = ["KernelRuntimeContext&", *(_parameter(operator, each) for each in operator["arguments"])]
    # In a separate namespace, so that the names of types are not added to the operators' namespace.
    alias = f"{namespace}_{name}"
    return (
        f"namespace modelbuild_kernel_types {{\nusing {alias} = {_returned(operator)}({', '.join(types)});\n}}\n"
        f"namespace {namespace} {{\nmodelbuild_kernel_types::{alias} {name};\n}}\n"
    )


def _call(operator: KernelOperator, number: int) -> str:
    count = len(operator["arguments"])
    checks, values = [f"a.size() >= {count}"], ["context"]
    for index, argument in enumerate(operator["arguments"]):
        _, check, read = _of_type(operator, argument)
        checks.append(f"({check.replace('v.', f'a[{index}]->')})")
        values.append(read.replace("v.", f"a[{index}]->"))
    name, schema = _cpp_string(operator["name"]), _cpp_string(operator["schema"])
    return f"""
void call_{number}(KernelRuntimeContext& context, Arguments a) {{
  if (!fits(context, {" && ".join(checks)}, {schema})) return;
  guarded(context, {name}, [&] {{ {function_of(operator)}({", ".join(values)}); }});
}}
const Registration kRegistered{number}({name}, call_{number});
"""


_PLAIN = frozenset(f"{ascii_letters}{digits} !#$%&'()*+,-./:;<=>@[]^_{{|}}~".encode())


def _cpp_string(text: str) -> str:
    """Return a string of C++. The default of an argument may be any text; octal escapes have a fixed length, unlike
    hexadecimal ones, and a question mark may begin a trigraph."""
    parts = (chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(parts)}"'


def _returned(operator: KernelOperator) -> str:
    outputs = ["Tensor&" for each in operator["arguments"] if each["out"]]
    return outputs[0] if len(outputs) == 1 else f"std::tuple<{', '.join(outputs)}>"


def _parameter(operator: KernelOperator, argument: KernelArgument) -> str:
    return "Tensor&" if argument["out"] else _of_type(operator, argument)[0]


def _of_type(operator: KernelOperator, argument: KernelArgument) -> tuple[str, str, str]:
    written = argument["type"]
    if written in _TYPES:
        return _TYPES[written]
    if written.endswith("?") and written[:-1] in _TYPES:
        inner, check, read = _TYPES[written[:-1]]
        plain = inner.removeprefix("const ").removesuffix("&")
        kind = f"std::optional<{plain}>"
        parameter = f"const {kind}&" if plain != inner else kind
        return parameter, f"v.isNone() || {check}", f"v.isNone() ? {kind}() : {kind}({read})"
    raise StepError(
        f"{operator['schema']}: kernels cannot have arguments of the type {written}; expected Tensor, Scalar,"
        " ScalarType, int, float, bool, str, or lists and optional values of them"
    )
