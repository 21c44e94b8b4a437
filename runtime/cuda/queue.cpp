#include "queue.hpp"

#include <executorch/runtime/platform/log.h>

namespace modelbuild::cuda {
namespace {

thread_local Queue* entered = nullptr;

}  // namespace

Queue::~Queue() {
  for (const auto& [device, stream] : streams_) {
    const DeviceGuard guard(device);
    cudaStreamDestroy(stream);
  }
}

void Queue::enter(std::optional<void*> stream) {
  outer_ = entered;
  entered = this;
  transfers = {};
  caller_.reset();
  if (stream) caller_ = static_cast<cudaStream_t>(*stream);
}

Transfers Queue::leave() {
  entered = outer_;
  if (caller_) return transfers;
  for (const auto& [device, stream] : streams_) {
    const DeviceGuard guard(device);
    const cudaError_t error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
      cudaGetLastError();
      throw modelbuild::Error(modelbuild::Error::Kind::kProgram,
                              "a run on cuda:" + std::to_string(device) + " failed: " + cudaGetErrorString(error));
    }
  }
  return transfers;
}

Error Queue::stream(int device, cudaStream_t* found) {
  if (caller_) {
    int own = device;
    MB_CUDA("stream of the caller", cudaStreamGetDevice(*caller_, &own));
    if (own != device) {
      ET_LOG(Error, "the caller's stream is one of cuda:%d, but the work is to be done on cuda:%d", own, device);
      return Error::InvalidArgument;
    }
    *found = *caller_;
    return Error::Ok;
  }
  if (const auto known = streams_.find(device); known != streams_.end()) {
    *found = known->second;
    return Error::Ok;
  }
  const DeviceGuard guard(device);
  MB_CUDA("stream", guard.error());
  MB_CUDA("stream", cudaStreamCreateWithFlags(found, cudaStreamNonBlocking));
  streams_[device] = *found;
  return Error::Ok;
}

Error current_stream(int device, cudaStream_t* found) {
  if (entered != nullptr) return entered->stream(device, found);
  *found = cudaStreamPerThread;
  return Error::Ok;
}

bool in_run() { return entered != nullptr; }

void count_staged(std::size_t in, std::size_t out) {
  if (entered == nullptr) return;
  entered->transfers.staged_in += in;
  entered->transfers.staged_out += out;
}

void count_copied(std::size_t in, std::size_t out) {
  if (entered == nullptr) return;
  entered->transfers.copied_in += in;
  entered->transfers.copied_out += out;
}

}  // namespace modelbuild::cuda
