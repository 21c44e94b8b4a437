// Reads the facts in a manifest: names of inputs and outputs, the device, versions and parts.
// Format: docs/reference/program-files.md.
#pragma once

#include <string>
#include <string_view>

#include "api/runtime.hpp"

namespace modelbuild {

// Sets a description's device, versions and parts from a manifest's JSON, and returns the signature in it as JSON; ""
// if there is none. Throws Damaged for a member of another type.
std::string read_contents(std::string_view manifest, Description* description);

}  // namespace modelbuild
