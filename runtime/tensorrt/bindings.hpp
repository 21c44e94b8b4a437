// An engine's inputs and outputs: names, types and the shapes that its optimization profiles allow.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>

#include <string>
#include <vector>

#include "blob.hpp"
#include "flavour.h"

namespace modelbuild::tensorrt {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Span;

struct Range {
  mb_trt_dims least, most;
  bool contains(const mb_trt_dims& shape) const;
};

struct Binding {
  std::string name;
  std::int32_t dtype = 0;
  std::vector<Range> profiles;  // of inputs
  mb_trt_dims given{-1, {}};    // last passed to the context
  int alias = -1;               // of outputs: the input whose memory it shares
};

struct Bindings {
  std::vector<Binding> inputs;
  std::vector<Binding> outputs;
};

// Reads the bindings that a blob names. Logs an error with the engine's name if the engine lacks one, or if one can't
// be memory on the GPU in row-major order.
Error read_bindings(const mb_trt_flavour& flavour, mb_trt_engine* engine, const Blob& blob,
                    const std::string& engine_name, Bindings* bindings);

// Returns the tensor that a binding gets. Logs an error if it is of another type or order.
Error tensor_of(const EValue& argument, const Binding& binding, const std::string& engine_name,
                executorch::runtime::etensor::Tensor* tensor);

// Chooses the profile for the shapes of all inputs: the current one if it fits, else the first that does. Logs an error
// if none does.
Error choose_profile(const std::vector<Binding>& inputs, const std::vector<mb_trt_dims>& shapes,
                     const std::string& engine_name, std::size_t* profile);

mb_trt_dims shape_of(const executorch::runtime::etensor::Tensor& tensor);  // of rank -1 if TensorRT has no such rank
bool equal(const mb_trt_dims& one, const mb_trt_dims& other);
std::string text_of(const mb_trt_dims& shape);

}  // namespace modelbuild::tensorrt
