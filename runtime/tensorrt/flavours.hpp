// The flavours of TensorRT that lie beside this library.
#pragma once

#include <vector>

#include "flavour.h"

namespace modelbuild::tensorrt {

// In alphabetical order of their files; loaded once.
const std::vector<const mb_trt_flavour*>& flavours();

}  // namespace modelbuild::tensorrt
