// The device contract (docs/runtime.md) for the inputs and outputs of one compiled part on one GPU.
//
// What the program's metadata say of where a tensor lies is not looked at; the pointer is.
//   memory of the part's own GPU   used in place
//   host memory                    staged: through a buffer on the GPU, by asynchronous copies. The first time that
//   this
//                                  happens to a part one INFO line says so
//   memory of another GPU          an error that names both
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "device.hpp"

namespace modelbuild::cuda {

// Not for several threads at once; its GPU is the current one in every call.
class DeviceIo {
 public:
  // `part` names it in messages; `slots` is how many inputs and outputs it has.
  DeviceIo(std::string part, int device, std::size_t slots);
  ~DeviceIo();
  DeviceIo(const DeviceIo&) = delete;
  DeviceIo& operator=(const DeviceIo&) = delete;

  void begin(cudaStream_t stream);
  // Where the part finds an input, or is to write an output. `name` is for messages. An address is given for no bytes,
  // too.
  Error input(std::size_t slot, const char* name, const void* data, std::size_t bytes, void** bound);
  Error output(std::size_t slot, const char* name, void* data, std::size_t bytes, void** bound);
  // After the part's work was enqueued: brings staged outputs back, and waits where the caller could not know that it
  // has to.
  Error finish();
  // After work that was enqueued came to no good end: waits, so that nothing is in use any more.
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
