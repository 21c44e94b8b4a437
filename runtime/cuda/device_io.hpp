// The device contract (docs/reference/gpu-runtime.md) for the inputs and outputs of one compiled part on one GPU.
//
// The device of a tensor is that of its pointer, not that in the program's metadata.
//   memory of the part's own GPU   used in place
//   host memory                    staged through a buffer on the GPU by asynchronous copies; logged once per part at
//                                  INFO
//   memory of another GPU          an error with both GPUs
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "device.hpp"

namespace modelbuild::cuda {

// Not thread-safe. Its GPU must be current in every call.
class DeviceIo {
 public:
  // `part` is its name in messages; `slots` is its number of inputs and outputs.
  DeviceIo(std::string part, int device, std::size_t slots);
  ~DeviceIo();
  DeviceIo(const DeviceIo&) = delete;
  DeviceIo& operator=(const DeviceIo&) = delete;

  void begin(cudaStream_t stream);
  // Returns the address at which the part reads an input, or writes an output; also for tensors without elements.
  // `name` is for messages.
  Error input(std::size_t slot, const char* name, const void* data, std::size_t bytes, void** bound);
  Error output(std::size_t slot, const char* name, void* data, std::size_t bytes, void** bound);
  // Call after the part's work was enqueued. Copies staged outputs back, and waits if the caller can't know that it
  // must wait.
  Error finish();
  // Call after a failure. Waits for enqueued work, so that no memory is still in use.
  void abandon();

  bool staged() const { return staged_in_ + staged_out_ != 0; }

 private:
  struct Buffer {
    void* data = nullptr;
    std::size_t size = 0;
  };
  struct Back {
    void* host;
    const void* device;
    std::size_t bytes;
  };

  Error locate(const char* name, const void* data, std::size_t bytes, bool* here);
  Error buffer(std::size_t slot, std::size_t bytes, void** found);

  std::string part_;
  int device_;
  std::vector<Buffer> buffers_;
  std::vector<Back> back_;
  cudaStream_t stream_ = nullptr;
  std::size_t staged_in_ = 0;
  std::size_t staged_out_ = 0;
  bool said_ = false;
};

}  // namespace modelbuild::cuda
