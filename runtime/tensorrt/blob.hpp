// The blob of a TensorRT delegate: an engine behind what the run time must know of it. The format is torch_tensorrt's
// (magic TR01, TR02), written by rules/modelbuild_rules/backends/tensorrt/steps/engine/blob.py, which describes it.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace modelbuild::tensorrt {

struct Alias {
  std::size_t output;  // of the engine's outputs
  std::size_t input;   // whose memory it shares
};

struct Blob {
  std::vector<std::string> inputs;  // names of bindings, in the order of the delegate's arguments
  std::vector<std::string> outputs;
  std::vector<Alias> aliases;
  int device = 0;
  std::span<const std::uint8_t> engine;
};

// What is wrong with a blob.
struct BadBlob : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Checks every length and type before it is used. Throws BadBlob. The engine's bytes are those of `data`.
Blob parse_blob(std::span<const std::uint8_t> data);

}  // namespace modelbuild::tensorrt
