// TensorRT's library, loaded with the first engine.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "flavour.h"

namespace modelbuild::tensorrt {

// The versions that a flavour can call, as getInferLibVersion returns them.
struct Versions {
  std::int32_t oldest, newest;
  int scale;  // of the major version: 1000 up to TensorRT 8, then 10000
};

class Library {
 public:
  // Loads the first of the libraries with a version in the range. Logs why there is none, as flavour.h's `load` says.
  static Library load(const char* product, std::span<const char* const> names, const Versions& versions,
                      const mb_trt_log& log);

  explicit operator bool() const { return create_ != nullptr; }
  const std::string& name() const { return name_; }  // "TensorRT 10.16.1 (libnvinfer.so.10)"
  const std::string& file() const { return file_; }
  std::int32_t number() const { return version_; }  // as getInferLibVersion returns it
  void version(std::int32_t* three) const;
  // Returns an nvinfer1::IRuntime*, or nullptr. `logger` is an nvinfer1::ILogger*.
  void* create_runtime(void* logger) const { return create_(logger, version_); }

 private:
  using Create = void* (*)(void* logger, std::int32_t version);
  Create create_ = nullptr;
  std::int32_t version_ = 0;
  int scale_ = 1;
  std::string name_;
  std::string file_;
};

}  // namespace modelbuild::tensorrt
