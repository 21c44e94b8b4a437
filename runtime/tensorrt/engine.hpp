// An engine on a GPU, loaded from a blob and run on ExecuTorch's tensors.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "blob.hpp"
#include "device_io.hpp"
#include "flavour.h"

namespace modelbuild::tensorrt {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Span;

class Engine {
 public:
  // Logs the reason of a failure to ExecuTorch's log.
  static Error load(const Blob& blob, const std::string& method, std::unique_ptr<Engine>* engine);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // `arguments` are inputs, then outputs, in the blob's order. May return before the GPU is done if the caller's run
  // waits for it. One call at a time; others wait.
  Error run(Span<EValue*> arguments);

 private:
  struct Binding {
    std::string name;
    std::int32_t dtype = 0;
    mb_trt_dims least{};  // of inputs
    mb_trt_dims most{};
    mb_trt_dims given{-1, {}};  // last passed to the context
    int alias = -1;             // of outputs: the input whose memory it shares
  };

  Engine() = default;
  Error bind_names(const Blob& blob);
  Error tensor_of(Span<EValue*> arguments, std::size_t at, const Binding& binding,
                  executorch::runtime::etensor::Tensor* tensor) const;
  Error set_shape(Binding* binding, const executorch::runtime::etensor::Tensor& tensor);
  Error bind(Span<EValue*> arguments);
  Error bind_outputs(Span<EValue*> arguments);
  Error enqueue(cudaStream_t stream);
  Error wait_for_last(cudaStream_t stream);

  const mb_trt_flavour* flavour_ = nullptr;
  mb_trt_engine* engine_ = nullptr;
  mb_trt_context* context_ = nullptr;
  std::string name_;
  int device_ = 0;
  std::vector<Binding> inputs_;
  std::vector<Binding> outputs_;
  std::vector<void*> input_addresses_;
  struct Reflect {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  std::vector<Reflect> reflects_;  // aliased outputs, with the program's memory for them
  std::unique_ptr<cuda::DeviceIo> io_;
  std::mutex mutex_;
  cudaEvent_t done_ = nullptr;  // after the last enqueue
  cudaStream_t last_stream_ = nullptr;
  bool in_flight_ = false;
};

}  // namespace modelbuild::tensorrt
