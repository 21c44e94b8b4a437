// What a .pte and a .ptd have in common: segments behind the flatbuffer, and the sizes of tensors in them.
#pragma once

#include <optional>

#include "flatbuffer.hpp"

namespace modelbuild {

// The bytes of each segment. `segments` are tables of offset and size, offsets are from byte `base` on. Throws
// Malformed for one that does not lie in the file.
std::vector<std::uint64_t> segment_sizes(const std::vector<flatbuffer::Table>& segments, std::uint64_t base,
                                         std::uint64_t file_size);

struct TensorSize {
  std::vector<std::int32_t> sizes;
  std::vector<std::uint8_t> dim_order;
  std::optional<std::uint64_t> bytes;  // of all elements; absent for element types that this runtime does not know
};

// Reads a table's fields of a tensor's type, sizes and order of dimensions. Throws Malformed where they fit no tensor.
TensorSize tensor_size(const flatbuffer::Table& table, int dtype, int sizes, int dim_order);

}  // namespace modelbuild
