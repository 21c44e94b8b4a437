// Loads the plug-ins that a program needs: libraries of kernels and delegates that register themselves.
#pragma once

#include "api/runtime.hpp"

namespace modelbuild {

// Loads the given libraries, then a library for each backend and kernel that the program needs and that is not yet
// registered. Throws Error for a missing backend or kernel.
void load_plugins(const Description& program, const LoadOptions& options);

}  // namespace modelbuild
