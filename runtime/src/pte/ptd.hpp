// Checks the structure of a .ptd, which ExecuTorch reads without checks.
#pragma once

#include <map>

#include "pte/flatbuffer.hpp"

namespace modelbuild {

// Returns the bytes of each of its data, by name. Throws flatbuffer::Malformed.
std::map<std::string, std::uint64_t> check_ptd(flatbuffer::Bytes file);

}  // namespace modelbuild
