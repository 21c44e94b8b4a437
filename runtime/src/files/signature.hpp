// Names, ranges and dynamic dimensions of a program's inputs and outputs: in its manifest, or signature.json beside it.
#pragma once

#include <filesystem>

#include "api/runtime.hpp"
#include "trust/signed_files.hpp"

namespace modelbuild {

// Sets the names, ranges and bounds of the ports of a program's methods from its signature: `in_manifest`, as JSON, or
// if that is empty a file of `files` beside the program. It is of each method, or of the method `forward` or the only
// one. Names the ports of the others input0, output0 and so on. Throws Error if the file is not a signature, or if the
// signature is of another program.
void apply_signature(const std::filesystem::path& program, const std::string& in_manifest, SignedFiles* files,
                     Description* description);

}  // namespace modelbuild
