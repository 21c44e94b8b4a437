// The format is executorch/extension/flat_tensor/serialize/flat_tensor.fbs (identifier FT01) after a header ("FH01")
// at byte 8, as executorch 1.5.1 writes it.
#include "pte/ptd.hpp"

#include <algorithm>

#include "pte/schema.hpp"
#include "pte/segments.hpp"

namespace modelbuild {
namespace {

using flatbuffer::Malformed;
using flatbuffer::Table;
using NamedData = schema::PtdNamedData;

constexpr std::uint64_t kHeaderEnd = 48;

bool begins(flatbuffer::Bytes file, std::size_t at, std::string_view magic) {
  return std::equal(magic.begin(), magic.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
}

void check_layout(const Table& layout, std::uint64_t bytes) {
  const TensorSize size = tensor_size(layout, schema::PtdTensorLayout::kScalarType, schema::PtdTensorLayout::kSizes,
                                      schema::PtdTensorLayout::kDimOrder);
  if (size.bytes && *size.bytes > bytes) {
    throw Malformed("a tensor of " + std::to_string(*size.bytes) + " bytes lies in a segment of " +
                    std::to_string(bytes));
  }
}

}  // namespace

std::map<std::string, std::uint64_t> check_ptd(flatbuffer::Bytes file) {
  if (file.size() < kHeaderEnd || !begins(file, 4, "FT01") || !begins(file, 8, "FH01")) {
    throw Malformed("it does not start like a .ptd");
  }
  const auto begin = flatbuffer::read<std::uint64_t>(file, 16);
  const auto size = flatbuffer::read<std::uint64_t>(file, 24);
  const auto base = flatbuffer::read<std::uint64_t>(file, 32);
  if (begin > file.size() || size > file.size() - begin) {
    throw Malformed("its header claims " + std::to_string(size) + " bytes at byte " + std::to_string(begin) +
                    " in a file of " + std::to_string(file.size()));
  }
  const flatbuffer::Buffer buffer(file.first(begin + size));
  const Table root = Table::root(buffer);
  if (!root.has(schema::PtdFlatTensor::kSegments)) throw Malformed("it lists no segments");
  const std::vector<std::uint64_t> segments =
      segment_sizes(root.tables(schema::PtdFlatTensor::kSegments), base, file.size());
  const std::vector<Table> named = root.tables(schema::PtdFlatTensor::kNamedData);
  if (named.empty()) throw Malformed("it lists no data");
  std::map<std::string, std::uint64_t> found;
  for (const Table& entry : named) {
    if (!entry.has(NamedData::kKey)) throw Malformed("data have no key");
    const auto segment = entry.scalar<std::uint32_t>(NamedData::kSegmentIndex);
    if (segment >= segments.size()) throw Malformed("segment " + std::to_string(segment) + " does not exist");
    if (entry.has(NamedData::kTensorLayout)) check_layout(entry.table(NamedData::kTensorLayout), segments[segment]);
    found[entry.name(NamedData::kKey)] = segments[segment];
  }
  return found;
}

}  // namespace modelbuild
