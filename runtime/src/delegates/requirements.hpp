// Checks of the machine, which delegates provide when their library is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/runtime.hpp"

namespace modelbuild {

// Returns the requirements of a part that this machine does not meet, one line each, without loading the part. `blob`
// is its delegate's blob, `target` the device that the program was compiled for, if known.
using Requirements = std::vector<std::string> (*)(std::span<const std::uint8_t> blob,
                                                  const std::optional<Target>& target);

MODELBUILD_API void provide_requirements(const std::string& backend, Requirements check);

}  // namespace modelbuild
