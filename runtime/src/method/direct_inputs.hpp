// Inputs that the program plans memory for, but that only a GPU reads: they are read from the caller's memory instead
// of being copied to the program's first.
#pragma once

#include <executorch/extension/module/module.h>

#include <span>
#include <vector>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

class DirectInputs {
 public:
  DirectInputs(executorch::extension::Module* module, const MethodDescription& described);

  // Makes an input the caller's memory. Returns false if ExecuTorch must set it: it is not direct, or ExecuTorch never
  // set it, which it insists on.
  bool set(std::size_t index, void* data, std::span<const std::int64_t> shape);
  // Call after ExecuTorch set an input.
  void was_set(std::size_t index) { inputs_[index].known = true; }

 private:
  struct Input {
    executorch::runtime::etensor::TensorImpl* tensor = nullptr;  // nullptr if it is not direct
    bool known = false;                                          // ExecuTorch has set it
  };
  std::vector<Input> inputs_;
};

}  // namespace modelbuild
