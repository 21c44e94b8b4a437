// Kernels for float32 in row-major order that take the place of ExecuTorch's kernels of the same operators, so that
// programs stay as they are. They use all threads.
#pragma once

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include "kernel.hpp"

namespace modelbuild::kernels {

using executorch::extension::parallel_for;

// Registers a kernel for arguments of the types and orders in `key` (executorch::runtime::KernelKey): those of tensors,
// results included, the last result twice if it is the only one. A second runtime in the process registers none: a
// second kernel of a key would end the process.
struct Faster {
  Faster(const char* name, const char* key, executorch::runtime::OpFunction function) {
    for (const executorch::runtime::Kernel& known : executorch::runtime::get_registered_kernels()) {
      if (std::strcmp(known.name_, name) == 0 && known.kernel_key_ == executorch::runtime::KernelKey(key)) return;
    }
    const Error ignored = executorch::runtime::register_kernel(executorch::runtime::Kernel(name, key, function));
    (void)ignored;  // always Ok
  }
};

}  // namespace modelbuild::kernels
