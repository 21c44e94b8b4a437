// Element types that this runtime supports.
#pragma once

#include <optional>

#include "api/runtime.hpp"

namespace modelbuild {

// Returns the bytes of an element, by the type's number in a .pte; empty for a type that this runtime lacks.
std::optional<std::size_t> element_size(std::int64_t number);

}  // namespace modelbuild
