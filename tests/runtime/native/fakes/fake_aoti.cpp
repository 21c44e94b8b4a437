// A library as AOTInductor makes them, over the real shims: y = x * w + 1 for one float32 input, with one constant w of
// one element. Compiled with TRANSPOSED the output lies in memory column by column.
#include <cuda_runtime_api.h>

#include <string>

#include "fake_cudart.hpp"
#include "shims.hpp"

using modelbuild::aoti::AotiError;
using modelbuild::aoti::AotiTensor;

extern "C" AotiError aoti_torch_empty_strided(std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides,
                                              std::int32_t dtype, std::int32_t device_type, std::int32_t device,
                                              AotiTensor** tensor);

struct StreamGuard;
extern "C" AotiError aoti_torch_create_cuda_stream_guard(void* stream, std::int32_t device, StreamGuard** guard);
extern "C" AotiError aoti_torch_delete_cuda_stream_guard(StreamGuard* guard);

namespace {

struct Model {
  int device;
  float weight;
};

void compute(const float* from, float* to, std::int64_t rows, std::int64_t columns, float weight) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < columns; ++k) {
#ifdef TRANSPOSED
      to[k * rows + i] = from[i * columns + k] * weight + 1;
#else
      to[i * columns + k] = from[i * columns + k] * weight + 1;
#endif
    }
  }
}

}  // namespace

extern "C" {

AotiError AOTInductorModelContainerCreateWithExternalConstants(Model** model, std::size_t, const char* device,
                                                               const char*,
                                                               const modelbuild::aoti::NamedTensor* constants,
                                                               std::size_t count) {
  void* data = nullptr;
  if (count != 1 || std::string(constants->name) != "w" || aoti_torch_get_data_ptr(constants->tensor, &data) != 0) {
    return 1;
  }
  const std::string text(device);
  int current = -1;
  cudaGetDevice(&current);
  *model = new Model{std::stoi(text.substr(text.find(':') + 1)), *static_cast<const float*>(data)};
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
AotiError AOTInductorModelContainerRunSingleThreaded(Model* model, AotiTensor** inputs, std::size_t,
                                                     AotiTensor** outputs, std::size_t, void* stream, void*) {
  StreamGuard* guard = nullptr;
  if (aoti_torch_create_cuda_stream_guard(stream, model->device, &guard) != 0) return 1;
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
  fake_launch(static_cast<cudaStream_t>(stream), [=, rows = sizes[0], columns = sizes[1], weight = model->weight] {
    compute(static_cast<const float*>(from), static_cast<float*>(to), rows, columns, weight);
  });
  aoti_torch_delete_tensor_object(inputs[0]);
  aoti_torch_delete_cuda_stream_guard(guard);
  return 0;
}

}  // extern "C"
