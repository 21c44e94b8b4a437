// Moves elements between row-major order and a program's order of dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace modelbuild {

// Returns whether an order of dimensions is row-major.
bool row_major(std::span<const std::uint8_t> dim_order);

// `shape` is in the model's order of dimensions; `order` lists the dimensions from the outermost in memory.
void to_program_order(const void* rows, void* out, std::span<const std::int64_t> shape,
                      std::span<const std::uint8_t> order, std::size_t item);
void to_row_major(const void* program, void* out, std::span<const std::int64_t> shape,
                  std::span<const std::uint8_t> order, std::size_t item);

}  // namespace modelbuild
