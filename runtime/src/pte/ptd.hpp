// Checks the structure of a .ptd, which ExecuTorch reads without checks.
#pragma once

#include "pte/flatbuffer.hpp"

namespace modelbuild {

// Throws flatbuffer::Malformed.
void check_ptd(flatbuffer::Bytes file);

}  // namespace modelbuild
