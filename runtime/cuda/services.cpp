// CUDA services for libmodelbuild_runtime, registered when this library is loaded.
#include <executorch/runtime/platform/log.h>

#include "allocator.hpp"
#include "device.hpp"
#include "queue.hpp"

namespace modelbuild::cuda {
namespace {

namespace er = executorch::runtime;

void check(const std::string& what, cudaError_t error) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw modelbuild::Error(modelbuild::Error::Kind::kProgram, what + ": " + cudaGetErrorString(error));
}

void check_device(int device) {
  if (const std::string missing = missing_device(device); !missing.empty()) {
    throw modelbuild::Error(modelbuild::Error::Kind::kProgram, missing);
  }
}

class Services final : public DeviceServices {
 public:
  int device_count() override { return cuda::device_count(); }
  std::optional<int> device_of(const void* pointer) override { return cuda::device_of(pointer); }

  void* allocate(int device, std::size_t bytes) override {
    check_device(device);
    const DeviceGuard guard(device);
    void* pointer = nullptr;
    check(std::to_string(bytes) + " bytes on cuda:" + std::to_string(device), cudaMalloc(&pointer, bytes));
    return pointer;
  }

  void release(int device, void* pointer) override {
    const DeviceGuard guard(device);
    cudaFree(pointer);
  }

  void copy(void* to, const void* from, std::size_t bytes, int device) override {
    check_device(device);
    const DeviceGuard guard(device);
    const std::string what = "copy of " + std::to_string(bytes) + " bytes";
    check(what, cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    // A copy from pageable host memory returns when the source was read, before all bytes are on the GPU.
    check(what, cudaStreamSynchronize(cudaStreamLegacy));
  }

  std::unique_ptr<MethodQueue> make_queue() override { return std::make_unique<Queue>(); }

  void register_allocator() override {
    if (er::get_device_allocator(er::etensor::DeviceType::CUDA) == nullptr) {
      er::register_device_allocator(&allocator());
    }
  }
};

const bool provided = [] {
  static Services services;
  provide_device_services(&services);
  return true;
}();

}  // namespace
}  // namespace modelbuild::cuda
