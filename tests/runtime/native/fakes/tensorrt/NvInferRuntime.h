// A stand-in for TensorRT's header, written for tests: the public classes, whose methods call an implementation by its
// virtual table.
#pragma once

#include "tables.h"

#if STANDIN_MAJOR == 8
#define NV_TENSORRT_MAJOR 8
#define NV_TENSORRT_VERSION 8600
#elif STANDIN_MAJOR == 10
#define NV_TENSORRT_MAJOR 10
#define NV_TENSORRT_VERSION 101600
#elif defined(STANDIN_RTX)
#define NV_TENSORRT_MAJOR 1
#define NV_TENSORRT_VERSION 10601
#else
#define NV_TENSORRT_MAJOR 11
#define NV_TENSORRT_VERSION 110100
#endif

namespace nvinfer1 {

class IExecutionContext : public INoCopy {
 public:
  bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t stream) noexcept {
    return mImpl->setOptimizationProfileAsync(index, stream);
  }
  bool setInputShape(const char* name, const Dims& shape) noexcept { return mImpl->setInputShape(name, shape); }
  Dims getTensorShape(const char* name) const noexcept { return mImpl->getTensorShape(name); }
  bool setTensorAddress(const char* name, void* address) noexcept { return mImpl->setTensorAddress(name, address); }
  std::int32_t inferShapes(std::int32_t most, const char** missing) noexcept {
    return mImpl->inferShapes(most, missing);
  }
  bool enqueueV3(cudaStream_t stream) noexcept { return mImpl->enqueueV3(stream); }

 protected:
  apiv::VExecutionContext* mImpl = nullptr;
};

class ICudaEngine : public INoCopy {
 public:
#if STANDIN_MAJOR == 8
  IExecutionContext* createExecutionContext() noexcept { return mImpl->createExecutionContext(); }
#else
  IExecutionContext* createExecutionContext(
      ExecutionContextAllocationStrategy strategy = ExecutionContextAllocationStrategy::kSTATIC) noexcept {
    return mImpl->createExecutionContext(strategy);
  }
#endif
  const char* getName() const noexcept { return mImpl->getName(); }
  std::int32_t getNbIOTensors() const noexcept { return mImpl->getNbIOTensors(); }
  Dims getTensorShape(const char* name) const noexcept { return mImpl->getTensorShape(name); }
  DataType getTensorDataType(const char* name) const noexcept { return mImpl->getTensorDataType(name); }
  TensorLocation getTensorLocation(const char* name) const noexcept { return mImpl->getTensorLocation(name); }
  bool isShapeInferenceIO(const char* name) const noexcept { return mImpl->isShapeInferenceIO(name); }
  TensorIOMode getTensorIOMode(const char* name) const noexcept { return mImpl->getTensorIOMode(name); }
  TensorFormat getTensorFormat(const char* name) const noexcept { return mImpl->getTensorFormat(name); }
  std::int32_t getNbOptimizationProfiles() const noexcept { return mImpl->getNbOptimizationProfiles(); }
  Dims getProfileShape(const char* name, std::int32_t profile, OptProfileSelector select) const noexcept {
    return mImpl->getProfileShape(name, profile, select);
  }

 protected:
  apiv::VCudaEngine* mImpl = nullptr;
};

class IRuntime : public INoCopy {
 public:
  void setEngineHostCodeAllowed(bool allowed) noexcept { mImpl->setEngineHostCodeAllowed(allowed); }
  ICudaEngine* deserializeCudaEngine(const void* data, std::size_t size) noexcept {
#if STANDIN_MAJOR == 8
    return mImpl->deserializeCudaEngine(data, size, nullptr);
#else
    return mImpl->deserializeCudaEngine(data, size);
#endif
  }

 protected:
  apiv::VRuntime* mImpl = nullptr;
};

}  // namespace nvinfer1
