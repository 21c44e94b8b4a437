#include "device.hpp"

#include <executorch/runtime/platform/log.h>

namespace modelbuild::cuda {

DeviceGuard::DeviceGuard(int device) {
  error_ = cudaGetDevice(&previous_);
  if (error_ == cudaSuccess && previous_ != device) {
    error_ = cudaSetDevice(device);
    changed_ = error_ == cudaSuccess;
  }
  if (error_ != cudaSuccess) cudaGetLastError();
}

DeviceGuard::~DeviceGuard() {
  if (changed_) cudaSetDevice(previous_);
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::optional<int> device_of(const void* data) {
  cudaPointerAttributes attributes{};
  if (data == nullptr || cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  // Managed memory is accessible from every GPU, and migrates to the one that uses it.
  const bool device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return device ? std::optional(attributes.device) : std::nullopt;
}

bool page_locked(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) == cudaSuccess) return attributes.type == cudaMemoryTypeHost;
  cudaGetLastError();
  return false;
}

Error failed(const char* where, const char* what, cudaError_t error) {
  cudaGetLastError();
  ET_LOG(Error, "%s: %s: %s", where, what, cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? Error::MemoryAllocationFailed : Error::Internal;
}

std::string missing_device(int device) {
  const int count = device_count();
  if (device >= 0 && device < count) return "";
  return "cuda:" + std::to_string(device) + " does not exist here; this machine has " + std::to_string(count) +
         " CUDA device" + (count == 1 ? "" : "s");
}

std::string driver_problem() {
  // The oldest driver for Linux that supports CUDA 13, whatever its minor version.
  constexpr const char* kExpected = "expected driver 580 or newer";
  static_assert(CUDART_VERSION / 1000 == 13);
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) cudaGetLastError();
  if (version == 0) return std::string("there is no NVIDIA driver here; ") + kExpected;
  if (version / 1000 >= CUDART_VERSION / 1000) return "";
  return "the NVIDIA driver here supports CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10) + " only; " + kExpected + ", for CUDA 13";
}

std::string capability_of(int device) {
  int major = 0;
  int minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace modelbuild::cuda
