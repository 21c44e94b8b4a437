// Checks the shapes of a node of an XNNPACK partition, from which XNNPACK computes addresses without checks.
#pragma once

#include "pte/flatbuffer.hpp"
#include "pte/xnnpack_schema.hpp"

namespace modelbuild::xnnpack {

using Dims = std::vector<std::uint32_t>;

inline constexpr std::uint32_t kNoValue = ~0U;

// Throws flatbuffer::Malformed unless a condition holds.
inline void require(bool holds, const char* message) {
  if (!holds) throw flatbuffer::Malformed(std::string("a partition of XNNPACK: ") + message);
}

inline std::uint64_t product(const Dims& dims) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  std::uint64_t count = 1;
  for (const std::uint32_t size : dims) {
    require(!__builtin_mul_overflow(count, std::uint64_t{size}, &count) && count < kMost, "a value is too large");
  }
  return count;
}

struct Value {
  std::uint64_t bits = 0;  // of an element
  Dims sizes;
  std::uint32_t external = kNoValue;
  std::uint32_t flags = 0;
  bool constant = false;
  bool named = false;   // a constant outside of the blob
  bool packed = false;  // a node packs it: the delegate frees the constant after compilation, if it is a named one
  bool read = false;    // a node reads it when it runs
  bool ready = false;   // has elements when the next node runs

  // Each row begins at a byte.
  std::uint64_t bytes() const {
    const std::uint64_t row = sizes.empty() ? 1 : sizes.back();
    return row == 0 ? 0 : product(sizes) / row * ((row * bits + 7) / 8);
  }
};

// Returns whether XNNPACK copies a node's input, by its place among the inputs, when it compiles.
bool packs(std::uint8_t kind, std::size_t input);

// Checks the fields of a node whose kind is a member of XNodeUnion. Throws flatbuffer::Malformed.
void check_node_shapes(std::uint8_t kind, const flatbuffer::Table& fields, const std::vector<Value>& values);

}  // namespace modelbuild::xnnpack
