// Reads the common parts of a .pte and a .ptd: segments after the flatbuffer, and sizes of tensors.
#pragma once

#include <optional>

#include "pte/flatbuffer.hpp"

namespace modelbuild {

// Returns the bytes of each segment. `segments` are tables of offset and size; offsets are relative to byte `base`.
// Throws Malformed for a segment outside the file.
std::vector<std::uint64_t> segment_sizes(const std::vector<flatbuffer::Table>& segments, std::uint64_t base,
                                         std::uint64_t file_size);

struct TensorSize {
  std::vector<std::int32_t> sizes;
  std::vector<std::uint8_t> dim_order;
  std::optional<std::uint64_t> bytes;  // of all elements; absent for element types that this runtime lacks
};

// Reads a tensor's type, sizes and order of dimensions from these fields. Throws Malformed if they are invalid.
TensorSize tensor_size(const flatbuffer::Table& table, int dtype, int sizes, int dim_order);

}  // namespace modelbuild
