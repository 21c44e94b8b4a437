// TensorRT's objects, called by the slots of their virtual tables.
//
// A public object is {virtual table, implementation}. The table of a public object has its two destructors only; its
// methods are inline and call the implementation, whose table begins with two destructors as well.
#pragma once

#include <cstdint>

#include "flavour.h"

namespace modelbuild::tensorrt {

struct Object {
  void** table;
  struct Implementation {
    void** table;
  }* implementation;

  template <typename Result, typename... Arguments>
  Result call(int slot, Arguments... arguments) {
    using Method = Result (*)(Implementation*, Arguments...);
    return reinterpret_cast<Method>(implementation->table[kDestructors + slot])(implementation, arguments...);
  }

  // Calls the deleting destructor.
  static void free(Object* object) {
    if (object != nullptr) reinterpret_cast<void (*)(Object*)>(object->table[1])(object);
  }

  static constexpr int kDestructors = 2;
};

// nvinfer1::Dims, whose sizes are 64 bits wide from TensorRT 10 on.
template <typename Size>
struct DimsOf {
  std::int32_t rank;
  Size sizes[MB_TRT_MAX_DIMS];

  explicit operator mb_trt_dims() const {
    mb_trt_dims plain{};
    plain.rank = rank > MB_TRT_MAX_DIMS ? -1 : rank;
    for (int i = 0; i < plain.rank; ++i) plain.sizes[i] = sizes[i];
    return plain;
  }
  static DimsOf of(const mb_trt_dims& plain) {
    DimsOf dims{};
    dims.rank = plain.rank;
    for (int i = 0; i < plain.rank; ++i) dims.sizes[i] = static_cast<Size>(plain.sizes[i]);
    return dims;
  }
};

inline mb_trt_severity severity_of(std::int32_t severity) {
  return severity <= 1 ? MB_TRT_ERROR : severity == 2 ? MB_TRT_WARNING : MB_TRT_INFO;
}

// nvinfer1::ILogger up to TensorRT 10: log, then the destructors.
struct PlainLogger {
  explicit PlainLogger(const mb_trt_log& sink) : sink_(sink) {}
  virtual void log(std::int32_t severity, const char* message) noexcept {
    sink_.write(sink_.user, severity_of(severity), message);
  }
  virtual ~PlainLogger() = default;

 private:
  mb_trt_log sink_;
};

// nvinfer1::ILogger from TensorRT 11 on: an IVersionedInterface, then log.
struct InterfaceInfo {
  const char* kind;
  std::int32_t major, minor;
};
struct VersionedInterface {
  virtual std::int32_t language() const noexcept { return 0; }  // C++
  virtual InterfaceInfo info() const noexcept = 0;
  virtual ~VersionedInterface() = default;
};
struct VersionedLogger final : VersionedInterface {
  explicit VersionedLogger(const mb_trt_log& sink) : sink_(sink) {}
  InterfaceInfo info() const noexcept override { return {"ILogger", 1, 0}; }
  virtual void log(std::int32_t severity, const char* message) noexcept {
    sink_.write(sink_.user, severity_of(severity), message);
  }

 private:
  mb_trt_log sink_;
};

}  // namespace modelbuild::tensorrt
