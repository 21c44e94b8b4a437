// The flavours of TensorRT beside this library.
#pragma once

#include <vector>

#include "flavour.h"

namespace modelbuild::tensorrt {

// Returns the flavours sorted by file name; they are loaded once.
const std::vector<const mb_trt_flavour*>& flavours();

}  // namespace modelbuild::tensorrt
