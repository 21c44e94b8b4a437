// slots_check: compares slots.hpp with the virtual tables of the stand-ins, method by method. Prints the differences.
#include <NvInferRuntime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "slots.hpp"

namespace {

using modelbuild::tensorrt::kNone;

using nvinfer1::apiv::VCudaEngine;
using nvinfer1::apiv::VExecutionContext;
using nvinfer1::apiv::VRuntime;

constexpr modelbuild::tensorrt::Family kFamily = modelbuild::tensorrt::MODELBUILD_TENSORRT_FAMILY;
constexpr std::uintptr_t kDestructors = 2;
int checked = 0;
int failures = 0;

// The first word of a pointer to a virtual method is the byte position in the virtual table, plus one on x86-64.
template <typename Method>
void check(const char* name, int slot, Method method) {
  std::uintptr_t word = 0;
  std::memcpy(&word, &method, sizeof word);
  if (slot == kNone) return;
  const auto found = static_cast<int>(word / sizeof(void*) - kDestructors);
  ++checked;
  if (found == slot) return;
  ++failures;
  std::printf("%s: slots.hpp has %d, the table %d\n", name, slot, found);
}

}  // namespace

int main() {
  check("deserializeCudaEngine", kFamily.runtime.deserialize, &VRuntime::deserializeCudaEngine);
  check("setEngineHostCodeAllowed", kFamily.runtime.host_code, &VRuntime::setEngineHostCodeAllowed);
  const auto& engine = kFamily.engine;
  check("createExecutionContext", engine.context, &VCudaEngine::createExecutionContext);
  check("getName", engine.name, &VCudaEngine::getName);
  check("getTensorShape", engine.shape, &VCudaEngine::getTensorShape);
  check("getTensorDataType", engine.dtype, &VCudaEngine::getTensorDataType);
  check("getTensorLocation", engine.location, &VCudaEngine::getTensorLocation);
  check("isShapeInferenceIO", engine.is_shape, &VCudaEngine::isShapeInferenceIO);
  check("getTensorIOMode", engine.io_mode, &VCudaEngine::getTensorIOMode);
  check("getTensorFormat", engine.format, &VCudaEngine::getTensorFormat);
  check("getNbOptimizationProfiles", engine.profiles, &VCudaEngine::getNbOptimizationProfiles);
  check("getProfileShape", engine.profile_shape, &VCudaEngine::getProfileShape);
  check("getNbIOTensors", engine.bindings, &VCudaEngine::getNbIOTensors);
  const auto& context = kFamily.context;
  check("setOptimizationProfileAsync", context.set_profile, &VExecutionContext::setOptimizationProfileAsync);
  check("setInputShape", context.set_shape, &VExecutionContext::setInputShape);
  check("getTensorShape", context.shape, &VExecutionContext::getTensorShape);
  check("setTensorAddress", context.set_address, &VExecutionContext::setTensorAddress);
  check("inferShapes", context.infer_shapes, &VExecutionContext::inferShapes);
  check("enqueueV3", context.enqueue, &VExecutionContext::enqueueV3);
  std::printf("%d methods, %d differ\n", checked, failures);
  return failures == 0 ? 0 : 1;
}
