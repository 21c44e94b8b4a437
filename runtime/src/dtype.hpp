// Element types that this runtime knows.
#pragma once

#include <optional>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// The bytes of an element of a type, by the type's number in a .pte; nothing for one that this runtime does not know.
std::optional<std::size_t> element_size(std::int64_t number);

}  // namespace modelbuild
