// The header of a serialized engine, which TensorRT needs not be there to read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace modelbuild::tensorrt {

struct PlanHeader {
  const char* product;                  // "TensorRT" or "TensorRT-RTX", as in a flavour
  std::array<std::int32_t, 3> version;  // of the TensorRT that built it
};

// Returns nothing for bytes that do not begin like an engine.
std::optional<PlanHeader> read_plan_header(std::span<const std::uint8_t> plan);

std::string text_of(const std::array<std::int32_t, 3>& version);  // "8.6.0"

}  // namespace modelbuild::tensorrt
