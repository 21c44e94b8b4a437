// Converts tensors and numbers to and from ExecuTorch's values.
#pragma once

#include <executorch/runtime/core/evalue.h>

#include <span>
#include <vector>

#include "api/runtime.hpp"

namespace modelbuild {

// Memory as the tensor that a port describes. The caller owns the memory.
class WrappedTensor {
 public:
  WrappedTensor(void* data, const Port& port, std::span<const std::int64_t> shape);
  WrappedTensor(const WrappedTensor&) = delete;
  WrappedTensor& operator=(const WrappedTensor&) = delete;
  // Valid as long as this object.
  executorch::runtime::EValue value() { return executorch::runtime::EValue(executorch::aten::Tensor(&tensor_)); }

 private:
  std::vector<executorch::aten::SizesType> sizes_;
  std::vector<executorch::aten::DimOrderType> order_;
  std::vector<executorch::aten::StridesType> strides_;
  executorch::aten::TensorImpl tensor_;
};

// Returns the program's value for an input that is not a tensor; None if there is no value.
executorch::runtime::EValue constant_of(const Port& port);

// Returns an output of a run. A host tensor that is not row-major is copied to `rearranged` in row-major order.
Value value_of(const Port& port, const executorch::runtime::EValue& value, std::vector<std::vector<char>>* rearranged);

}  // namespace modelbuild
