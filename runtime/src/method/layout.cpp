#include "method/layout.hpp"

#include <cstring>

namespace modelbuild {
namespace {

// Returns the stride of each dimension, in elements, for dimensions in the given memory order.
std::vector<std::size_t> strides(std::span<const std::int64_t> shape, std::span<const std::uint8_t> order) {
  std::vector<std::size_t> found(shape.size());
  std::size_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    found[order[i]] = step;
    step *= static_cast<std::size_t>(shape[order[i]]);
  }
  return found;
}

// Calls `visit(row, other)` with element indices, in row-major order.
template <typename Visit>
void walk(std::span<const std::int64_t> shape, std::span<const std::uint8_t> order, Visit visit) {
  const std::vector<std::size_t> step = strides(shape, order);
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<std::int64_t> index(shape.size(), 0);
  std::size_t other = 0;
  for (std::size_t row = 0; row < count; ++row) {
    visit(row, other);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      other += step[axis];
      if (++index[axis] < shape[axis]) break;
      other -= step[axis] * static_cast<std::size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
}

}  // namespace

bool row_major(std::span<const std::uint8_t> dim_order) {
  for (std::size_t i = 0; i < dim_order.size(); ++i) {
    if (dim_order[i] != i) return false;
  }
  return true;
}

void to_program_order(const void* rows, void* out, std::span<const std::int64_t> shape,
                      std::span<const std::uint8_t> order, std::size_t item) {
  const auto* from = static_cast<const char*>(rows);
  auto* to = static_cast<char*>(out);
  walk(shape, order,
       [&](std::size_t row, std::size_t other) { std::memcpy(to + other * item, from + row * item, item); });
}

void to_row_major(const void* program, void* out, std::span<const std::int64_t> shape,
                  std::span<const std::uint8_t> order, std::size_t item) {
  const auto* from = static_cast<const char*>(program);
  auto* to = static_cast<char*>(out);
  walk(shape, order,
       [&](std::size_t row, std::size_t other) { std::memcpy(to + row * item, from + other * item, item); });
}

}  // namespace modelbuild
