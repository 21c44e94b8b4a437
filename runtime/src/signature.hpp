// Names, ranges and dynamic dimensions of a program's inputs and outputs: signature.json beside a .pte.
#pragma once

#include <filesystem>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// Gives a method's ports the names, ranges and bounds of the signature beside the program, where there is one;
// otherwise input0, output0 and so on. Throws Error when the file is no signature or that of another program.
void apply_signature(const std::filesystem::path& program, MethodDescription* signed_method, Description* description);

}  // namespace modelbuild
