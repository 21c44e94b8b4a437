#include "declared.hpp"

#include <algorithm>

#include "api/runtime.hpp"
#include "bindings.hpp"

namespace modelbuild::tensorrt {
namespace {

bool equal(const mb_trt_dims& found, const std::vector<std::int64_t>& declared) {
  return found.rank == static_cast<std::int32_t>(declared.size()) &&
         std::equal(declared.begin(), declared.end(), found.sizes);
}

std::string text(const std::vector<std::int64_t>& sizes) {
  std::string found;
  for (const std::int64_t size : sizes) found += (found.empty() ? "" : ", ") + std::to_string(size);
  return "[" + found + "]";
}

std::string dtype_difference(const DeclaredBinding& declared, std::int32_t found) {
  const std::string name = found < 0 ? "a type that ExecuTorch lacks" : dtype_name(static_cast<DType>(found));
  return name == declared.dtype ? "" : "has element type " + name + "; the target declares " + declared.dtype;
}

std::string shape_difference(const DeclaredBinding& input, const mb_trt_flavour& flavour, mb_trt_engine* engine) {
  static constexpr const char* kNames[] = {"min", "opt", "max"};
  const auto count = static_cast<std::int32_t>(input.profiles.size());
  if (const std::int32_t found = std::max(flavour.profiles(engine), 1); found != count) {
    return "has " + std::to_string(found) + " optimization profiles; the target declares " + std::to_string(count);
  }
  for (std::int32_t i = 0; i < count; ++i) {
    const DeclaredShape& profile = input.profiles[static_cast<std::size_t>(i)];
    const std::vector<std::int64_t>* declared[] = {&profile.min, &profile.opt, &profile.max};
    for (const mb_trt_bound bound : {MB_TRT_MIN, MB_TRT_OPT, MB_TRT_MAX}) {
      const mb_trt_dims found = flavour.profile(engine, input.name.c_str(), i, bound);
      if (equal(found, *declared[bound])) continue;
      return "has " + std::string(kNames[bound]) + " shape " + text_of(found) + " in profile " + std::to_string(i) +
             "; the target declares " + text(*declared[bound]);
    }
  }
  return "";
}

}  // namespace

std::string difference(const Declared& declared, const mb_trt_flavour& flavour, mb_trt_engine* engine) {
  const auto count = static_cast<std::int32_t>(declared.inputs.size() + declared.outputs.size());
  if (const std::int32_t found = flavour.bindings(engine); found != count) {
    return "the engine has " + std::to_string(found) + " inputs and outputs; the target declares " +
           std::to_string(count);
  }
  for (const DeclaredBinding& input : declared.inputs) {
    std::string problem = dtype_difference(input, flavour.dtype(engine, input.name.c_str()));
    if (problem.empty()) problem = shape_difference(input, flavour, engine);
    if (!problem.empty()) return "input '" + input.name + "' " + problem;
  }
  for (const DeclaredBinding& output : declared.outputs) {
    std::string problem = dtype_difference(output, flavour.dtype(engine, output.name.c_str()));
    const mb_trt_dims found = flavour.binding_shape(engine, output.name.c_str());
    if (problem.empty() && !equal(found, output.shape)) {
      problem = "has shape " + text_of(found) + "; the target declares " + text(output.shape);
    }
    if (!problem.empty()) return "output '" + output.name + "' " + problem;
  }
  return "";
}

}  // namespace modelbuild::tensorrt
