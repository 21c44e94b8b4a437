// Messages of ExecuTorch's error codes.
#pragma once

#include <executorch/runtime/core/error.h>

namespace modelbuild {

const char* error_text(executorch::runtime::Error error);

}  // namespace modelbuild
