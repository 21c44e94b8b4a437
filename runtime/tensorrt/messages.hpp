// TensorRT's messages about an engine. They are kept until the end of a call, so that the delegate's own error, which
// names the engine, comes first and contains TensorRT's first error.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "flavour.h"

namespace modelbuild::tensorrt {

// Thread-safe.
class Messages {
 public:
  // The result refers to this object.
  mb_trt_log log() { return {write, this}; }

  // Returns the first error, "" if there is none, and drops all errors.
  std::string take_error();
  // Logs what is left, with the engine's name.
  void flush(const std::string& name);

 private:
  static void write(void* user, mb_trt_severity severity, const char* message) noexcept;

  std::mutex mutex_;
  std::vector<std::pair<mb_trt_severity, std::string>> kept_;
};

}  // namespace modelbuild::tensorrt
