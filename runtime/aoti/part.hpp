// A part of a program that AOTInductor compiled, on one GPU: its library, and its container with the weights.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/span.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "constants.hpp"
#include "device_io.hpp"
#include "library.hpp"

namespace modelbuild::aoti {

using executorch::runtime::EValue;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Span;

// Keys of a part's data in the program.
struct Keys {
  std::string library;
  std::string constants;  // of the list of constants
};

class Part {
 public:
  // Logs the reason of a failure to ExecuTorch's log.
  static Error load(const Keys& keys, const NamedDataMap& data, int device, const std::string& method,
                    const Owner& owner, std::unique_ptr<Part>* part);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // `arguments` are inputs, then outputs. May return before the GPU is done if the caller's run waits for it. One call
  // at a time.
  Error run(Span<EValue*> arguments);

 private:
  Part() = default;
  Error create(const Keys& keys, const NamedDataMap& data, const Owner& owner);
  Error wrap_inputs(Span<EValue*> arguments, std::vector<AotiTensor*>* tensors);
  Error take_output(AotiTensor* from, std::size_t slot, EValue* argument, cudaStream_t stream);

  std::string name_;
  int device_ = 0;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Constants> constants_;  // destroyed after the container, which reads them
  Container* container_ = nullptr;
  std::size_t inputs_ = 0;
  std::size_t outputs_ = 0;
  std::unique_ptr<cuda::DeviceIo> io_;
  std::mutex mutex_;
};

}  // namespace modelbuild::aoti
