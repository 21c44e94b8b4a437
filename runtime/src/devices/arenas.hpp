// The memory that a method plans for its tensors: host memory, and memory of the GPU that its metadata names.
#pragma once

#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/method_meta.h>

#include <memory>
#include <string>
#include <vector>

#include "api/runtime.hpp"
#include "devices/host_buffer.hpp"

namespace modelbuild {

// The state that the methods of a program share; the first loaded method makes it.
struct SharedState {
  std::unique_ptr<HostBuffer> memory;
  std::size_t bytes = 0;
};

class Arenas {
 public:
  // With a shared state, which must outlive the method, the state is the method's second arena. Throws Error if the
  // program's GPU does not exist or has too little memory. (ExecuTorch's own implementation aborts the process.)
  Arenas(const executorch::runtime::MethodMeta& meta, const std::string& program, SharedState* shared = nullptr);
  executorch::runtime::HierarchicalAllocator* allocator() { return allocator_.get(); }

 private:
  std::vector<HostBuffer> host_;
  std::vector<DeviceBuffer> device_;
  std::vector<executorch::runtime::Span<std::uint8_t>> spans_;
  std::vector<executorch::runtime::etensor::Device> devices_;
  std::unique_ptr<executorch::runtime::HierarchicalAllocator> allocator_;
};

}  // namespace modelbuild
