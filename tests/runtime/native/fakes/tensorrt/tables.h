// The virtual tables of TensorRT 8.5 and 8.6, of 10, and of 11 and TensorRT-RTX 1.6: the methods that flavours call, at
// their positions in each.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "types.h"

#if STANDIN_MAJOR == 8
#define AT(of_8, of_10, of_11) of_8
#elif STANDIN_MAJOR == 10
#define AT(of_8, of_10, of_11) of_10
#else
#define AT(of_8, of_10, of_11) of_11
#endif

namespace nvinfer1::apiv {

[[noreturn]] inline void wrong_slot(int slot) {
  std::fprintf(stderr, "fake TensorRT: slot %d is not one that a flavour may call\n", slot);
  std::abort();
}

class VRoot {
 public:
  virtual ~VRoot() noexcept = default;
  void unused() {}
};

template <int>
struct Slot {};

// Base with methods that no flavour calls, from position Next to the one before End.
template <typename Base, int Next, int End>
class Until : public Until<Base, Next, End - 1> {
 public:
  using Until<Base, Next, End - 1>::unused;
  virtual void unused(Slot<End - 1>) noexcept { wrong_slot(End - 1); }
};
template <typename Base, int End>
class Until<Base, End, End> : public Base {};

class Deserialize : public Until<VRoot, 0, AT(0, 1, 1)> {
 public:
#if STANDIN_MAJOR == 8
  virtual ICudaEngine* deserializeCudaEngine(const void* data, std::size_t size, void* plugins) noexcept = 0;
#else
  virtual ICudaEngine* deserializeCudaEngine(const void* data, std::size_t size) noexcept = 0;
#endif
};
class VRuntime : public Until<Deserialize, AT(1, 2, 2), AT(18, 19, 17)> {
 public:
  virtual void setEngineHostCodeAllowed(bool allowed) noexcept = 0;  // from 8.6 on
};

class CreateContext : public Until<VRoot, 0, AT(9, 3, 3)> {
 public:
#if STANDIN_MAJOR == 8
  virtual IExecutionContext* createExecutionContext() noexcept = 0;
#else
  virtual IExecutionContext* createExecutionContext(ExecutionContextAllocationStrategy strategy) noexcept = 0;
#endif
};
class Name : public Until<CreateContext, AT(10, 4, 4), AT(19, 7, 5)> {
 public:
  virtual const char* getName() const noexcept = 0;
  virtual std::int32_t getNbOptimizationProfiles() const noexcept = 0;
};
class Tensors : public Until<Name, AT(21, 9, 7), AT(32, 17, 13)> {
 public:
  virtual Dims getTensorShape(const char* name) const noexcept = 0;
  virtual DataType getTensorDataType(const char* name) const noexcept = 0;
  virtual TensorLocation getTensorLocation(const char* name) const noexcept = 0;
  virtual bool isShapeInferenceIO(const char* name) const noexcept = 0;
  virtual TensorIOMode getTensorIOMode(const char* name) const noexcept = 0;
};
class Format : public Until<Tensors, AT(37, 22, 18), AT(39, 24, 20)> {
 public:
  virtual TensorFormat getTensorFormat(const char* name) const noexcept = 0;
};
class VCudaEngine : public Until<Format, AT(40, 25, 21), AT(42, 27, 23)> {
 public:
  virtual Dims getProfileShape(const char* name, std::int32_t profile, OptProfileSelector select) const noexcept = 0;
  virtual std::int32_t getNbIOTensors() const noexcept = 0;
};

class SetProfile : public Until<VRoot, 0, AT(23, 15, 14)> {
 public:
  virtual bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t stream) noexcept = 0;
};
class SetShape : public Until<SetProfile, AT(24, 16, 15), AT(27, 19, 18)> {
 public:
  virtual bool setInputShape(const char* name, const Dims& shape) noexcept = 0;
  virtual Dims getTensorShape(const char* name) const noexcept = 0;
};
class SetAddress : public Until<SetShape, AT(29, 21, 20), AT(30, 22, 21)> {
 public:
  virtual bool setTensorAddress(const char* name, void* address) noexcept = 0;
};
class InferShapes : public Until<SetAddress, AT(31, 23, 22), AT(33, 26, 25)> {
 public:
  virtual std::int32_t inferShapes(std::int32_t most, const char** missing) noexcept = 0;
};
class VExecutionContext : public Until<InferShapes, AT(34, 27, 26), AT(42, 35, 34)> {
 public:
  virtual bool enqueueV3(cudaStream_t stream) noexcept = 0;
};

}  // namespace nvinfer1::apiv
