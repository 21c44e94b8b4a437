// ExecuTorch's error codes in words.
#pragma once

#include <executorch/runtime/core/error.h>

namespace modelbuild {

const char* error_text(executorch::runtime::Error error);

}  // namespace modelbuild
