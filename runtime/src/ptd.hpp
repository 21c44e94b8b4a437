// Checks the structure of a .ptd, which ExecuTorch reads without looking.
#pragma once

#include "flatbuffer.hpp"

namespace modelbuild {

// Returns whether the file's list of data names a manifest. Throws flatbuffer::Malformed.
bool check_ptd(flatbuffer::Bytes file);

}  // namespace modelbuild
