// The requirements of an engine on the machine, which can be checked without loading it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "blob.hpp"

namespace modelbuild::tensorrt {

// Returns the requirements that this machine does not meet, one line each: the driver, the GPU, its compute capability
// (one of `capabilities` unless they are empty), TensorRT's library and its version.
std::vector<std::string> unmet(const Blob& blob, const std::vector<std::string>& capabilities);

}  // namespace modelbuild::tensorrt
