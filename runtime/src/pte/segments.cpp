#include "pte/segments.hpp"

#include "method/dtype.hpp"
#include "pte/schema.hpp"

namespace modelbuild {
namespace {

using flatbuffer::Malformed;
using flatbuffer::Table;

// The length of ExecuTorch's arrays of sizes.
constexpr std::size_t kMostDimensions = 16;

}  // namespace

std::vector<std::uint64_t> segment_sizes(const std::vector<Table>& segments, std::uint64_t base,
                                         std::uint64_t file_size) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(segments.size());
  for (const Table& segment : segments) {
    const auto offset = segment.scalar<std::uint64_t>(schema::DataSegment::kOffset);
    const auto size = segment.scalar<std::uint64_t>(schema::DataSegment::kSize);
    if (base > file_size || offset > file_size - base || size > file_size - base - offset) {
      throw Malformed("segment " + std::to_string(sizes.size()) + " ends after the file's " +
                      std::to_string(file_size) + " bytes");
    }
    sizes.push_back(size);
  }
  return sizes;
}

TensorSize tensor_size(const Table& table, int dtype, int sizes, int dim_order) {
  TensorSize found{table.scalars<std::int32_t>(sizes), table.scalars<std::uint8_t>(dim_order), {}};
  if (found.sizes.size() > kMostDimensions) {
    throw Malformed("a tensor has " + std::to_string(found.sizes.size()) + " dimensions");
  }
  if (found.dim_order.size() != found.sizes.size()) {
    throw Malformed("a tensor's order of dimensions has another rank");
  }
  std::vector<bool> seen(found.sizes.size(), false);
  for (const std::uint8_t axis : found.dim_order) {
    if (axis >= seen.size() || seen[axis]) throw Malformed("a tensor's order of dimensions is not a permutation");
    seen[axis] = true;
  }
  const std::optional<std::size_t> element = element_size(table.scalar<std::int8_t>(dtype));
  auto bytes = static_cast<std::int64_t>(element.value_or(1));
  for (const std::int32_t size : found.sizes) {
    if (size < 0) throw Malformed("a tensor has a dimension of " + std::to_string(size));
    if (__builtin_mul_overflow(bytes, size, &bytes)) throw Malformed("a tensor has more bytes than can be counted");
  }
  if (element) found.bytes = static_cast<std::uint64_t>(bytes);
  return found;
}

}  // namespace modelbuild
