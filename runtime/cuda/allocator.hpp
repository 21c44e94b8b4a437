// ExecuTorch's device allocator for GPUs: for arenas that programs plan in GPU memory, and for their copy instructions.
#pragma once

#include <executorch/runtime/core/device_allocator.h>

namespace modelbuild::cuda {

executorch::runtime::DeviceAllocator& allocator();

}  // namespace modelbuild::cuda
