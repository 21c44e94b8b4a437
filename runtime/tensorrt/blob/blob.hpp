// The blob of a TensorRT delegate: metadata for the runtime, then the engine. The format is torch_tensorrt's (magic
// TR01, TR02); rules/modelbuild_rules/backends/tensorrt/steps/engine/blob.py writes and describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "declared.hpp"

namespace modelbuild::tensorrt {

struct Alias {
  std::size_t output;  // of the engine's outputs
  std::size_t input;   // the input whose memory it shares
};

struct Blob {
  std::vector<std::string> inputs;  // names of bindings, in the order of the delegate's arguments
  std::vector<std::string> outputs;
  std::vector<Alias> aliases;
  int device = 0;
  std::optional<Declared> declared;
  std::span<const std::uint8_t> engine;
};

// Thrown for an invalid blob.
struct BadBlob : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses a blob, checking every length and type before its use. Throws BadBlob. The engine's bytes are part of `data`.
Blob parse_blob(std::span<const std::uint8_t> data);

}  // namespace modelbuild::tensorrt
