// ExecuTorch's way to memory of a GPU: for the arenas that programs plan there, and for the copies they ask for.
#pragma once

#include <executorch/runtime/core/device_allocator.h>

namespace modelbuild::cuda {

executorch::runtime::DeviceAllocator& allocator();

}  // namespace modelbuild::cuda
