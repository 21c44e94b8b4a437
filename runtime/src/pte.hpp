// What a .pte says of itself: methods, their inputs and outputs, delegates and sizes.
#pragma once

#include <cstdint>
#include <span>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Describes the bytes of a .pte; path, data files and the signature's names are not filled in. Throws
// flatbuffer::Malformed.
Description read_pte(std::span<const std::uint8_t> data);

}  // namespace modelbuild
