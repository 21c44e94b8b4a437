// Moves elements between row-major order and a program's order of dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace modelbuild {

// Whether an order of dimensions is that of row-major memory.
bool row_major(std::span<const std::uint8_t> dim_order);

// `shape` is of the tensor as the model's author sees it; `order` names its dimensions from the outermost in memory.
void to_program_order(const void* rows, void* out, std::span<const std::int64_t> shape,
                      std::span<const std::uint8_t> order, std::size_t item);
void to_row_major(const void* program, void* out, std::span<const std::int64_t> shape,
                  std::span<const std::uint8_t> order, std::size_t item);

}  // namespace modelbuild
