// The flavours of TensorRT beside this library.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flavour.h"
#include "messages.hpp"

namespace modelbuild::tensorrt {

// An engine and the flavour that read it. With `engine` null, `problem` is the reason for an error message, which
// ExecuTorch cuts to 255 bytes; `reasons` are those of each flavour if there are several.
struct Opened {
  const mb_trt_flavour* flavour = nullptr;
  mb_trt_engine* engine = nullptr;
  std::unique_ptr<Messages> messages;  // TensorRT's, of this engine
  std::string problem;
  std::vector<std::string> reasons;
};

// A flavour, and the library of TensorRT that it found.
struct Library {
  std::vector<std::string> files;  // that it looks for
  std::string name;                // "TensorRT 10.16.1 (libnvinfer.so.10)"; "" if none was found
  std::string file;
  std::array<std::int32_t, 3> version{};
  std::string problem;  // why the library that it found can't be used
};

// Returns the flavours that are wanted, by major version, and loads their libraries of TensorRT.
std::vector<Library> libraries(const std::function<bool(const mb_trt_flavour&)>& wanted);

// Tries the flavours, the one that read the last engine first. Messages of flavours that can't read it are dropped if
// another one can.
// With `host_code` TensorRT may load code that is embedded in the plan.
Opened open_engine(std::span<const std::uint8_t> plan, bool host_code);

}  // namespace modelbuild::tensorrt
