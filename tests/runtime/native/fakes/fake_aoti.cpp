// A library as AOTInductor makes them, over the real shims: y = x * w + 1 for one float32 input, with one constant w of
// one element. Compiled with TRANSPOSED the output lies in memory column by column.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "shims.hpp"

using modelbuild::aoti::AotiError;
using modelbuild::aoti::AotiTensor;

extern "C" AotiError aoti_torch_empty_strided(std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides,
                                              std::int32_t dtype, std::int32_t device_type, std::int32_t device,
                                              AotiTensor** tensor);

namespace {

struct Model {
  int device;
  float weight = 0;
};

struct Work {
  const float* from;
  float* to;
  std::vector<std::int64_t> sizes;
  float weight;
};

void compute(void* data) {
  const auto* work = static_cast<Work*>(data);
  const std::int64_t rows = work->sizes[0];
  const std::int64_t columns = work->sizes[1];
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < columns; ++k) {
#ifdef TRANSPOSED
      work->to[k * rows + i] = work->from[i * columns + k] * work->weight + 1;
#else
      work->to[i * columns + k] = work->from[i * columns + k] * work->weight + 1;
#endif
    }
  }
  delete work;
}

}  // namespace

extern "C" {

AotiError AOTInductorModelContainerCreateWithDevice(Model** model, std::size_t, const char* device, const char*) {
  const std::string text(device);
  int current = -1;
  cudaGetDevice(&current);
  *model = new Model{std::stoi(text.substr(text.find(':') + 1))};
  return (*model)->device == current ? 0 : 1;
}
AotiError AOTInductorModelContainerDelete(Model* model) {
  delete model;
  return 0;
}
AotiError AOTInductorModelContainerGetNumInputs(Model*, std::size_t* count) {
  *count = 1;
  return 0;
}
AotiError AOTInductorModelContainerGetNumOutputs(Model*, std::size_t* count) {
  *count = 1;
  return 0;
}
AotiError AOTInductorModelContainerGetNumConstants(Model*, std::size_t* count) {
  *count = 1;
  return 0;
}
AotiError AOTInductorModelUpdateConstantsFromBlob(Model* model, const std::uint8_t* blob) {
  std::memcpy(&model->weight, blob, sizeof(float));
  return 0;
}
AotiError AOTInductorModelContainerRun(Model* model, AotiTensor** inputs, std::size_t, AotiTensor** outputs,
                                       std::size_t, void* stream, void*) {
  std::int64_t* sizes = nullptr;
  void* from = nullptr;
  void* to = nullptr;
  aoti_torch_get_sizes(inputs[0], &sizes);
  aoti_torch_get_data_ptr(inputs[0], &from);
#ifdef TRANSPOSED
  const std::int64_t strides[] = {1, sizes[0]};
#else
  const std::int64_t strides[] = {sizes[1], 1};
#endif
  constexpr std::int32_t kFloat32 = 6;
  aoti_torch_empty_strided(2, sizes, strides, kFloat32, aoti_torch_device_type_cuda(), model->device, &outputs[0]);
  aoti_torch_get_data_ptr(outputs[0], &to);
  auto* work = new Work{static_cast<float*>(from), static_cast<float*>(to), {sizes, sizes + 2}, model->weight};
  cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), compute, work);
  aoti_torch_delete_tensor_object(inputs[0]);
  return 0;
}

}  // extern "C"
