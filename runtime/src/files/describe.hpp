// Describes a program whose files may have to be signed.
#pragma once

#include "api/runtime.hpp"
#include "trust/signed_files.hpp"

namespace modelbuild {

// Returns the description of a .pte with the data, `verify` and the plugin folders of the options. Throws Error.
Description describe(const std::filesystem::path& path, const LoadOptions& options, SignedFiles* files);

}  // namespace modelbuild
