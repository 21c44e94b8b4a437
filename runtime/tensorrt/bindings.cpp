#include "bindings.hpp"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>

namespace modelbuild::tensorrt {
namespace {

using executorch::runtime::etensor::Tensor;

Error read_binding(const mb_trt_flavour& flavour, mb_trt_engine* engine, const std::string& name, bool is_input,
                   const std::string& engine_name, Binding* binding) {
  if (flavour.has_binding(engine, name.c_str(), is_input ? 1 : 0) == 0) {
    ET_LOG(Error, "%s: the blob names an %s '%s', which the engine lacks", engine_name.c_str(),
           is_input ? "input" : "output", name.c_str());
    return Error::DelegateInvalidCompatibility;
  }
  const char* obstacle = flavour.obstacle(engine, name.c_str());
  if (*obstacle != '\0') {
    ET_LOG(Error, "%s: %s '%s' can't be used: %s; expected linear memory on the GPU", engine_name.c_str(),
           is_input ? "input" : "output", name.c_str(), obstacle);
    return Error::NotSupported;
  }
  binding->name = name;
  binding->dtype = flavour.dtype(engine, name.c_str());
  if (!is_input) return Error::Ok;
  const std::int32_t profiles = std::max(flavour.profiles(engine), 1);
  for (std::int32_t i = 0; i < profiles; ++i) {
    binding->profiles.push_back(
        {flavour.profile(engine, name.c_str(), i, MB_TRT_MIN), flavour.profile(engine, name.c_str(), i, MB_TRT_MAX)});
  }
  return Error::Ok;
}

bool fits(const std::vector<Binding>& inputs, const std::vector<mb_trt_dims>& shapes, std::size_t profile) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].profiles[profile].contains(shapes[i])) return false;
  }
  return true;
}

void log_misfit(const std::vector<Binding>& inputs, const std::vector<mb_trt_dims>& shapes, const std::string& engine) {
  std::string all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Binding& input = inputs[i];
    const std::string given = "'" + input.name + "' has shape " + text_of(shapes[i]);
    std::string ranges;
    bool fits_one = false;
    for (const Range& range : input.profiles) {
      fits_one |= range.contains(shapes[i]);
      ranges += (ranges.empty() ? "" : ", ") + text_of(range.least) + " to " + text_of(range.most);
    }
    if (!fits_one) {
      ET_LOG(Error, "%s: %s, outside of the engine's profile%s %s", engine.c_str(), given.c_str(),
             input.profiles.size() == 1 ? "" : "s", ranges.c_str());
      return;
    }
    all += (all.empty() ? "" : ", ") + given;
  }
  ET_LOG(Error, "%s: no profile of the engine has room for all inputs: %s", engine.c_str(), all.c_str());
}

}  // namespace

bool Range::contains(const mb_trt_dims& shape) const {
  if (shape.rank != least.rank || shape.rank != most.rank) return false;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.sizes[i] < least.sizes[i] || shape.sizes[i] > most.sizes[i]) return false;
  }
  return shape.rank >= 0;
}

Error read_bindings(const mb_trt_flavour& flavour, mb_trt_engine* engine, const Blob& blob,
                    const std::string& engine_name, Bindings* bindings) {
  for (const bool is_input : {true, false}) {
    for (const std::string& name : is_input ? blob.inputs : blob.outputs) {
      Binding& binding = (is_input ? bindings->inputs : bindings->outputs).emplace_back();
      const Error error = read_binding(flavour, engine, name, is_input, engine_name, &binding);
      if (error != Error::Ok) return error;
    }
  }
  for (const Alias& alias : blob.aliases) bindings->outputs[alias.output].alias = static_cast<int>(alias.input);
  return Error::Ok;
}

Error tensor_of(const EValue& argument, const Binding& binding, const std::string& engine_name, Tensor* tensor) {
  if (!argument.isTensor()) {
    ET_LOG(Error, "%s: '%s' is not a tensor", engine_name.c_str(), binding.name.c_str());
    return Error::InvalidArgument;
  }
  *tensor = argument.toTensor();
  const auto dtype = static_cast<std::int32_t>(tensor->scalar_type());
  if (dtype != binding.dtype) {
    ET_LOG(Error, "%s: '%s' has element type %d, but the engine's has %d", engine_name.c_str(), binding.name.c_str(),
           dtype, binding.dtype);
    return Error::InvalidArgument;
  }
  const auto order = tensor->dim_order();
  if (!executorch::runtime::is_contiguous_dim_order(order.data(), order.size())) {
    ET_LOG(Error, "%s: '%s' does not lie in row-major order", engine_name.c_str(), binding.name.c_str());
    return Error::InvalidArgument;
  }
  return Error::Ok;
}

Error choose_profile(const std::vector<Binding>& inputs, const std::vector<mb_trt_dims>& shapes,
                     const std::string& engine_name, std::size_t* profile) {
  if (inputs.empty() || fits(inputs, shapes, *profile)) return Error::Ok;
  for (std::size_t next = 0; next < inputs.front().profiles.size(); ++next) {
    if (!fits(inputs, shapes, next)) continue;
    *profile = next;
    return Error::Ok;
  }
  log_misfit(inputs, shapes, engine_name);
  return Error::InvalidArgument;
}

mb_trt_dims shape_of(const Tensor& tensor) {
  mb_trt_dims shape{};
  shape.rank = tensor.dim() > MB_TRT_MAX_DIMS ? -1 : static_cast<std::int32_t>(tensor.dim());
  for (int i = 0; i < shape.rank; ++i) shape.sizes[i] = tensor.size(i);
  return shape;
}

bool equal(const mb_trt_dims& one, const mb_trt_dims& other) {
  return one.rank == other.rank && std::equal(one.sizes, one.sizes + std::max(one.rank, 0), other.sizes);
}

std::string text_of(const mb_trt_dims& shape) {
  if (shape.rank < 0) return "of unknown rank";
  std::string text;
  for (int i = 0; i < shape.rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape.sizes[i]);
  return "[" + text + "]";
}

}  // namespace modelbuild::tensorrt
