// Tensors and numbers on their way into ExecuTorch and out of it.
#pragma once

#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/core/evalue.h>

#include <vector>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Memory of a tensor as a port describes it. The caller keeps the memory.
executorch::extension::TensorPtr wrap(void* data, const Port& port, const std::vector<std::int64_t>& shape);

// What the program takes for an input that is no tensor; None where nothing can be given.
executorch::runtime::EValue constant_of(const Port& port);

// An output of a run. One that lies on the host in another order than row-major is put in order in `rearranged`.
Value value_of(const Port& port, const executorch::runtime::EValue& value, std::vector<std::vector<char>>* rearranged);

}  // namespace modelbuild
