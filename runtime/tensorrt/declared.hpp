// The facts that the rule `tensorrt_engine` declares about an engine from elsewhere. They are the member "declared" of
// the blob's metadata; engines of the backend `tensorrt` have none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flavour.h"

namespace modelbuild::tensorrt {

struct DeclaredShape {
  std::vector<std::int64_t> min, opt, max;
};

struct DeclaredBinding {
  std::string name;
  std::string dtype;                    // as dtype_name returns it
  std::vector<DeclaredShape> profiles;  // of an input
  std::vector<std::int64_t> shape;      // of an output; -1 for a size that varies
};

struct Declared {
  std::vector<std::string> capabilities;  // "9.0": of the GPUs that can run it
  bool version_compatible = false;        // other versions of TensorRT, and its lean library, can read it
  bool host_code = false;                 // TensorRT may load code that is embedded in it
  std::vector<DeclaredBinding> inputs, outputs;
};

// Returns how an engine's bindings differ from the declared ones, as text; "" if they don't.
std::string difference(const Declared& declared, const mb_trt_flavour& flavour, mb_trt_engine* engine);

}  // namespace modelbuild::tensorrt
