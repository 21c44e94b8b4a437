#include "allocator.hpp"

#include <executorch/runtime/platform/log.h>

#include "device.hpp"
#include "queue.hpp"

namespace modelbuild::cuda {
namespace {

namespace er = executorch::runtime;

constexpr const char* kWhere = "device memory";

// Returns a device's index; -1 is the current device in ExecuTorch.
int resolved(er::etensor::DeviceIndex index) {
  if (index >= 0) return static_cast<std::uint8_t>(index);
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

class Allocator final : public er::DeviceAllocator {
 public:
  er::Result<void*> allocate(std::size_t bytes, er::etensor::DeviceIndex index, std::size_t alignment) override {
    if (alignment > 256) return Error::InvalidArgument;  // cudaMalloc guarantees 256
    const DeviceGuard guard(resolved(index));
    MB_CUDA(kWhere, guard.error());
    void* pointer = nullptr;
    MB_CUDA(kWhere, cudaMalloc(&pointer, bytes));
    return pointer;
  }

  void deallocate(void* pointer, er::etensor::DeviceIndex index) override {
    const DeviceGuard guard(resolved(index));
    cudaFree(pointer);
  }

  // The source may be reused after return; the destination is ready on the method's stream. `from` may be device memory
  // after all, which the pointer's attributes show.
  Error copy_host_to_device(void* to, const void* from, std::size_t bytes, er::etensor::DeviceIndex index) override {
    return copy(to, from, bytes, index, true);
  }

  Error copy_device_to_host(void* to, const void* from, std::size_t bytes, er::etensor::DeviceIndex index) override {
    return copy(to, from, bytes, index, false);
  }

  er::etensor::DeviceType device_type() const override { return er::etensor::DeviceType::CUDA; }

 private:
  static Error copy(void* to, const void* from, std::size_t bytes, er::etensor::DeviceIndex index, bool inward) {
    const int device = resolved(index);
    const DeviceGuard guard(device);
    MB_CUDA(kWhere, guard.error());
    if (recording()) {
      ET_LOG(Error, "the program copies %zu bytes between host and device, which a CUDA graph can't contain", bytes);
      return Error::NotSupported;
    }
    cudaStream_t stream = nullptr;
    if (const Error error = current_stream(device, &stream); error != Error::Ok) return error;
    MB_CUDA(kWhere, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    const bool crosses = device_of(inward ? from : to) == std::nullopt;
    if (crosses) count_copied(inward ? bytes : 0, inward ? 0 : bytes);
    // The driver has read pageable source memory by now. Copies to the host must wait, since the host reads them next.
    if (!inward || !in_run() || page_locked(from)) MB_CUDA(kWhere, cudaStreamSynchronize(stream));
    return Error::Ok;
  }
};

}  // namespace

er::DeviceAllocator& allocator() {
  static Allocator only;
  return only;
}

}  // namespace modelbuild::cuda
