// Converts tensors and numbers to and from ExecuTorch's values.
#pragma once

#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/core/evalue.h>

#include <vector>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Wraps memory as the tensor that a port describes. The caller owns the memory.
executorch::extension::TensorPtr wrap(void* data, const Port& port, const std::vector<std::int64_t>& shape);

// Returns the program's value for an input that is not a tensor; None if there is no value.
executorch::runtime::EValue constant_of(const Port& port);

// Returns an output of a run. A host tensor that is not row-major is copied to `rearranged` in row-major order.
Value value_of(const Port& port, const executorch::runtime::EValue& value, std::vector<std::vector<char>>* rearranged);

}  // namespace modelbuild
