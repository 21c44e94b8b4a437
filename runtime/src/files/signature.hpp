// Names, ranges and dynamic dimensions of a program's inputs and outputs: in its manifest, or a signature.json next to
// it.
#pragma once

#include <filesystem>

#include "api/runtime.hpp"
#include "trust/signed_files.hpp"

namespace modelbuild {

// Sets the names, ranges and bounds of the ports of a program's methods from its signature: `in_manifest`, as JSON, or
// if that is empty a file of `files` next to the program. The signature describes each method, or `forward` or the only
// method. Names the ports of other methods input0, output0 and so on. Throws Error if the file is not a signature, or
// is another program's signature.
void apply_signature(const std::filesystem::path& program, const std::string& in_manifest, SignedFiles* files,
                     Description* description);

}  // namespace modelbuild
