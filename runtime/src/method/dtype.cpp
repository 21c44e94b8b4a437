// Names and sizes of element types.
#include "method/dtype.hpp"

#include <array>

namespace modelbuild {
namespace {

struct Known {
  DType type;
  const char* name;
  std::size_t size;
};

constexpr std::array<Known, 13> kKnown = {{
    {DType::kUint8, "uint8", 1},
    {DType::kInt8, "int8", 1},
    {DType::kInt16, "int16", 2},
    {DType::kInt32, "int32", 4},
    {DType::kInt64, "int64", 8},
    {DType::kFloat16, "float16", 2},
    {DType::kFloat32, "float32", 4},
    {DType::kFloat64, "float64", 8},
    {DType::kBool, "bool", 1},
    {DType::kBfloat16, "bfloat16", 2},
    {DType::kUint16, "uint16", 2},
    {DType::kUint32, "uint32", 4},
    {DType::kUint64, "uint64", 8},
}};

const Known* find(std::int64_t number) {
  for (const Known& each : kKnown) {
    if (static_cast<std::int64_t>(each.type) == number) return &each;
  }
  return nullptr;
}

const Known& known(DType type) {
  const Known* found = find(static_cast<std::int64_t>(type));
  if (found != nullptr) return *found;
  throw Error(Error::Kind::kProgram, "element type " + std::to_string(static_cast<int>(type)) + " is not supported");
}

}  // namespace

std::optional<std::size_t> element_size(std::int64_t number) {
  const Known* found = find(number);
  return found == nullptr ? std::optional<std::size_t>() : found->size;
}

std::string dtype_name(DType type) { return known(type).name; }
std::size_t dtype_size(DType type) { return known(type).size; }
std::string to_string(Device device) { return device.cuda ? "cuda:" + std::to_string(device.index) : "cpu"; }

std::size_t Tensor::numel() const {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

}  // namespace modelbuild
