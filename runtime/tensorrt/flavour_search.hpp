// The flavours of TensorRT beside this library.
#pragma once

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

// Tries the flavours, the one that read the last engine first. Messages of flavours that can't read it are dropped if
// another one can.
Opened open_engine(std::span<const std::uint8_t> plan);

}  // namespace modelbuild::tensorrt
