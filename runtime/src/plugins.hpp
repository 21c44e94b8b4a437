// Loads the libraries that a program needs: kernels and delegates, each a plug-in that registers itself.
#pragma once

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Load the given libraries, then for each backend and kernel that the program needs and nothing has registered the
// library that is known to have it. Throws Error that names what is lacking.
void load_plugins(const Description& program, const LoadOptions& options);

}  // namespace modelbuild
