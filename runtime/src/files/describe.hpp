// Ports as text, for messages.
#pragma once

#include <string>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

std::string to_string(const Port& port);  // `image: float32[1, 3, h=12..1024, 512] on cuda:0`

}  // namespace modelbuild
