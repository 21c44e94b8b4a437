#include "device_io.hpp"

#include <executorch/runtime/platform/log.h>

#include <algorithm>

#include "queue.hpp"

namespace modelbuild::cuda {

DeviceIo::DeviceIo(std::string part, int device, std::size_t slots)
    : part_(std::move(part)), device_(device), buffers_(slots) {}

DeviceIo::~DeviceIo() {
  const DeviceGuard guard(device_);
  for (const Buffer& buffer : buffers_) {
    if (buffer.data != nullptr) cudaFree(buffer.data);
  }
}

void DeviceIo::begin(cudaStream_t stream) {
  stream_ = stream;
  back_.clear();
  staged_in_ = staged_out_ = 0;
}

Error DeviceIo::locate(const char* name, const void* data, std::size_t bytes, bool* here) {
  const std::optional<int> device = bytes == 0 ? std::nullopt : device_of(data);
  if (device && *device != device_) {
    ET_LOG(Error, "%s: '%s' lies on cuda:%d, but this part runs on cuda:%d; copy it there first", part_.c_str(), name,
           *device, device_);
    return Error::InvalidArgument;
  }
  *here = device.has_value();
  if (!*here && bytes != 0 && recording()) {
    ET_LOG(Error, "%s: '%s' lies on the host, and a CUDA graph can't contain staging; pass device memory",
           part_.c_str(), name);
    return Error::NotSupported;
  }
  return Error::Ok;
}

// Returns a buffer of the part, which is kept for the next call and only grows. No work uses the old one, since calls
// that stage wait for their work.
Error DeviceIo::buffer(std::size_t slot, std::size_t bytes, void** found) {
  Buffer& own = buffers_[slot];
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  if (own.size < wanted) {
    if (own.data != nullptr) MB_CUDA(part_.c_str(), cudaFree(own.data));
    own = {};
    MB_CUDA(part_.c_str(), cudaMalloc(&own.data, wanted));
    own.size = wanted;
  }
  *found = own.data;
  return Error::Ok;
}

Error DeviceIo::input(std::size_t slot, const char* name, const void* data, std::size_t bytes, void** bound) {
  bool here = false;
  if (const Error error = locate(name, data, bytes, &here); error != Error::Ok) return error;
  if (here) {
    *bound = const_cast<void*>(data);
    return Error::Ok;
  }
  if (const Error error = buffer(slot, bytes, bound); error != Error::Ok || bytes == 0) return error;
  MB_CUDA(part_.c_str(), cudaMemcpyAsync(*bound, data, bytes, cudaMemcpyHostToDevice, stream_));
  staged_in_ += bytes;
  return Error::Ok;
}

Error DeviceIo::output(std::size_t slot, const char* name, void* data, std::size_t bytes, void** bound) {
  bool here = false;
  if (const Error error = locate(name, data, bytes, &here); error != Error::Ok) return error;
  if (here) {
    *bound = data;
    return Error::Ok;
  }
  if (const Error error = buffer(slot, bytes, bound); error != Error::Ok || bytes == 0) return error;
  back_.push_back({data, *bound, bytes});
  staged_out_ += bytes;
  return Error::Ok;
}

Error DeviceIo::finish() {
  if (staged() && !said_) {
    said_ = true;
    ET_LOG(Info,
           "%s on cuda:%d stages host memory: %zu bytes to the device and %zu back each call; give it device memory"
           " to avoid that",
           part_.c_str(), device_, staged_in_, staged_out_);
  }
  for (const Back& each : back_) {
    if (const cudaError_t error = cudaMemcpyAsync(each.host, each.device, each.bytes, cudaMemcpyDeviceToHost, stream_);
        error != cudaSuccess) {
      abandon();
      return failed(part_.c_str(), "copy to the host", error);
    }
  }
  if (recording()) return Error::Ok;
  // The host reads staged outputs, and may change staged inputs, as soon as this returns.
  if (staged() || !in_run()) MB_CUDA(part_.c_str(), cudaStreamSynchronize(stream_));
  count_staged(staged_in_, staged_out_);
  return Error::Ok;
}

void DeviceIo::abandon() {
  if (recording()) return;  // no work was done yet
  cudaStreamSynchronize(stream_);
  cudaGetLastError();
}

}  // namespace modelbuild::cuda
