// The virtual tables of TensorRT 8.5 and 8.6: the methods that flavours call, at their positions. UNUSED methods are
// other ones.
#pragma once

#include "types.h"

namespace nvinfer1::apiv {

class VRuntime : public VRoot {
 public:
  virtual ICudaEngine* deserializeCudaEngine(const void* data, std::size_t size, void* plugins) noexcept = 0;  // 0
  UNUSED(1)
  UNUSED(2)
  UNUSED(3)
  UNUSED(4)
  UNUSED(5)
  UNUSED(6)
  UNUSED(7)
  UNUSED(8)
  UNUSED(9)
  UNUSED(10)
  UNUSED(11)
  UNUSED(12)
  UNUSED(13)
  UNUSED(14)
  UNUSED(15)
  UNUSED(16)
  UNUSED(17)
  virtual void setEngineHostCodeAllowed(bool allowed) noexcept = 0;  // 18, from 8.6 on
};

class VCudaEngine : public VRoot {
 public:
  UNUSED(0)
  UNUSED(1)
  UNUSED(2)
  UNUSED(3)
  UNUSED(4)
  UNUSED(5)
  UNUSED(6)
  UNUSED(7)
  UNUSED(8)
  virtual IExecutionContext* createExecutionContext() noexcept = 0;  // 9
  UNUSED(10)
  UNUSED(11)
  UNUSED(12)
  UNUSED(13)
  UNUSED(14)
  UNUSED(15)
  UNUSED(16)
  UNUSED(17)
  UNUSED(18)
  virtual const char* getName() const noexcept = 0;                     // 19
  virtual std::int32_t getNbOptimizationProfiles() const noexcept = 0;  // 20
  UNUSED(21)
  UNUSED(22)
  UNUSED(23)
  UNUSED(24)
  UNUSED(25)
  UNUSED(26)
  UNUSED(27)
  UNUSED(28)
  UNUSED(29)
  UNUSED(30)
  UNUSED(31)
  virtual Dims getTensorShape(const char* name) const noexcept = 0;               // 32
  virtual DataType getTensorDataType(const char* name) const noexcept = 0;        // 33
  virtual TensorLocation getTensorLocation(const char* name) const noexcept = 0;  // 34
  virtual bool isShapeInferenceIO(const char* name) const noexcept = 0;           // 35
  virtual TensorIOMode getTensorIOMode(const char* name) const noexcept = 0;      // 36
  UNUSED(37)
  UNUSED(38)
  virtual TensorFormat getTensorFormat(const char* name) const noexcept = 0;  // 39
  UNUSED(40)
  UNUSED(41)
  virtual Dims getProfileShape(const char* name, std::int32_t profile,
                               OptProfileSelector select) const noexcept = 0;  // 42
  virtual std::int32_t getNbIOTensors() const noexcept = 0;                    // 43
};

class VExecutionContext : public VRoot {
 public:
  UNUSED(0)
  UNUSED(1)
  UNUSED(2)
  UNUSED(3)
  UNUSED(4)
  UNUSED(5)
  UNUSED(6)
  UNUSED(7)
  UNUSED(8)
  UNUSED(9)
  UNUSED(10)
  UNUSED(11)
  UNUSED(12)
  UNUSED(13)
  UNUSED(14)
  UNUSED(15)
  UNUSED(16)
  UNUSED(17)
  UNUSED(18)
  UNUSED(19)
  UNUSED(20)
  UNUSED(21)
  UNUSED(22)
  virtual bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t stream) noexcept = 0;  // 23
  UNUSED(24)
  UNUSED(25)
  UNUSED(26)
  virtual bool setInputShape(const char* name, const Dims& shape) noexcept = 0;  // 27
  virtual Dims getTensorShape(const char* name) const noexcept = 0;              // 28
  UNUSED(29)
  virtual bool setTensorAddress(const char* name, void* address) noexcept = 0;  // 30
  UNUSED(31)
  UNUSED(32)
  virtual std::int32_t inferShapes(std::int32_t most, const char** missing) noexcept = 0;  // 33
  UNUSED(34)
  UNUSED(35)
  UNUSED(36)
  UNUSED(37)
  UNUSED(38)
  UNUSED(39)
  UNUSED(40)
  UNUSED(41)
  virtual bool enqueueV3(cudaStream_t stream) noexcept = 0;  // 42
};

}  // namespace nvinfer1::apiv
