// Checks that tensors match a method's inputs and outputs.
#pragma once

#include <span>

#include "api/runtime.hpp"

namespace modelbuild {

// Throws Error of kind kInput with the input, the expected and the given value.
void check_inputs(const MethodDescription& method, std::span<const Tensor> inputs);

// Throws the same for memory of outputs; entries without data are skipped.
void check_outputs(const MethodDescription& method, std::span<const Tensor> outputs);

}  // namespace modelbuild
