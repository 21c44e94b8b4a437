#include "plan_header.hpp"

#include <cstring>

namespace modelbuild::tensorrt {
namespace {

// rules/modelbuild_rules/backends/tensorrt/steps/engine/plan_header.py describes the layout.
constexpr std::size_t kSize = 28;
constexpr std::size_t kVersion = 24;

}  // namespace

std::optional<PlanHeader> read_plan_header(std::span<const std::uint8_t> plan) {
  if (plan.size() < kSize) return {};
  const bool rtx = std::memcmp(plan.data(), "vtrt\0\0\0\0", 8) == 0;
  if (!rtx && std::memcmp(plan.data(), "ftrt\0\0\0\0", 8) != 0) return {};
  const std::uint8_t* version = plan.data() + kVersion;
  return PlanHeader{rtx ? "TensorRT-RTX" : "TensorRT", {version[0], version[1], version[2]}};
}

std::string text_of(const std::array<std::int32_t, 3>& version) {
  return std::to_string(version[0]) + "." + std::to_string(version[1]) + "." + std::to_string(version[2]);
}

}  // namespace modelbuild::tensorrt
