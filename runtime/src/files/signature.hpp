// Names, ranges and dynamic dimensions of a program's inputs and outputs: signature.json beside a .pte.
#pragma once

#include <filesystem>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Sets the names, ranges and bounds of a method's ports from the signature beside the program if there is one;
// otherwise names them input0, output0 and so on. Throws Error if the file is not a signature, or is of another
// program.
void apply_signature(const std::filesystem::path& program, MethodDescription* signed_method, Description* description);

}  // namespace modelbuild
