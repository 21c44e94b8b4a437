// Whether tensors are what a method takes.
#pragma once

#include <span>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Throws Error of kind kInput that names the input, what was expected and what was given.
void check_inputs(const MethodDescription& method, std::span<const Tensor> inputs);

}  // namespace modelbuild
