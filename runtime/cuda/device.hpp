// CUDA helpers: error messages, the current device, and the device of a pointer.
#pragma once

#include <cuda_runtime_api.h>
#include <executorch/runtime/core/error.h>

#include <optional>
#include <string>

namespace modelbuild::cuda {

using executorch::runtime::Error;

// Makes a GPU current for a scope, then restores the previous one. If that fails, `error` is set and nothing changes.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  cudaError_t error() const { return error_; }

 private:
  int previous_ = -1;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

int device_count();                              // 0 if there is no driver
std::optional<int> device_of(const void* data);  // the GPU whose memory it points to; empty for host memory
bool page_locked(const void* data);              // host memory that copies read after they were enqueued

// Logs a failed call and its device to ExecuTorch's log, and clears CUDA's last error.
Error failed(const char* where, const char* what, cudaError_t error);

// "there is no NVIDIA driver here; expected driver 580 or newer", or one that is too old for this CUDA runtime; "" if
// it is new enough.
std::string driver_problem();

// The compute capability of a GPU that exists, as "8.9".
std::string capability_of(int device);

// "cuda:1 does not exist here; this machine has 1 CUDA device", or "" if it exists.
std::string missing_device(int device);

}  // namespace modelbuild::cuda

// Returns Error::Internal (out of memory: MemoryAllocationFailed) from the calling function, with a message.
#define MB_CUDA(where, call)                                            \
  do {                                                                  \
    if (const cudaError_t mb_error = (call); mb_error != cudaSuccess) { \
      return ::modelbuild::cuda::failed(where, #call, mb_error);        \
    }                                                                   \
  } while (0)
