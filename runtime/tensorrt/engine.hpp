// An engine on a GPU, loaded from a blob and run on ExecuTorch's tensors.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "device_io.hpp"
#include "messages.hpp"

namespace modelbuild::tensorrt {

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
  using Tensor = executorch::runtime::etensor::Tensor;

  Engine() = default;
  Error run_on(cudaStream_t stream, Span<EValue*> arguments);
  Error bind_inputs(Span<EValue*> arguments, cudaStream_t stream);
  Error bind_input(std::size_t index, const Tensor& tensor);
  Error set_profile(std::size_t profile, cudaStream_t stream);
  Error set_shape(Binding* binding, const mb_trt_dims& shape);
  Error bind_outputs(Span<EValue*> arguments);
  Error bind_output(std::size_t index, const EValue& argument);
  Error enqueue(cudaStream_t stream);
  Error wait_for_last();
  // Logs a failed call of TensorRT with the reason that it logged.
  Error failed(const std::string& what, Error error);

  const mb_trt_flavour* flavour_ = nullptr;
  std::unique_ptr<Messages> messages_;
  mb_trt_engine* engine_ = nullptr;
  mb_trt_context* context_ = nullptr;
  std::string name_;
  int device_ = 0;
  Bindings bindings_;
  std::size_t profile_ = 0;
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
