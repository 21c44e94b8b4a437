// Whether tensors are what a method takes and gives.
#pragma once

#include <span>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Throw Error of kind kInput that names the input, what was expected and what was given.
void check_input(const Port& port, DType dtype, const std::vector<std::int64_t>& shape);
void check_inputs(const MethodDescription& method, std::span<const Tensor> inputs);

// The same for memory that outputs are to be written to; entries without data are none.
void check_outputs(const MethodDescription& method, std::span<const Tensor> outputs);

}  // namespace modelbuild
