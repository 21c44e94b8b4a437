// Functions of libaoti_cuda_shims.so that AOTInductor's libraries and this delegate call: tensors without libtorch. The
// library is from torch-tensorrt-executorch-runtime 0.1.0 (executorch 1.4.1); all functions except the stream's have C
// linkage.
#pragma once

#include <cuda_runtime_api.h>
#include <executorch/runtime/core/error.h>

#include <cstdint>

namespace modelbuild::aoti {

using AotiError = std::int32_t;  // 0 is success
struct Container;
struct AotiTensor;

// A constant of a library (AOTInductorConstantMapEntry of torch's aoti_runtime/interface.h).
struct NamedTensor {
  const char* name;
  AotiTensor* tensor;
};

// Makes the shims' symbols visible to libraries that are loaded later. Called once before the first.
executorch::runtime::Error expose_shims();

}  // namespace modelbuild::aoti

extern "C" {
modelbuild::aoti::AotiError aoti_torch_create_tensor_from_blob_v2(
    void* data, std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides, std::int64_t offset,
    std::int32_t dtype, std::int32_t device_type, std::int32_t device, modelbuild::aoti::AotiTensor** tensor,
    std::int32_t layout, const std::uint8_t* metadata, std::int64_t metadata_size);
modelbuild::aoti::AotiError aoti_torch_delete_tensor_object(modelbuild::aoti::AotiTensor* tensor);
modelbuild::aoti::AotiError aoti_torch_get_data_ptr(modelbuild::aoti::AotiTensor* tensor, void** data);
modelbuild::aoti::AotiError aoti_torch_get_dim(modelbuild::aoti::AotiTensor* tensor, std::int64_t* rank);
modelbuild::aoti::AotiError aoti_torch_get_sizes(modelbuild::aoti::AotiTensor* tensor, std::int64_t** sizes);
modelbuild::aoti::AotiError aoti_torch_get_strides(modelbuild::aoti::AotiTensor* tensor, std::int64_t** strides);
modelbuild::aoti::AotiError aoti_torch_get_dtype(modelbuild::aoti::AotiTensor* tensor, std::int32_t* dtype);
std::int32_t aoti_torch_device_type_cuda(void);
std::int32_t aoti_torch_device_type_cpu(void);
}

namespace executorch::backends::cuda {
// Sets the stream on which the shims copy, for this thread.
executorch::runtime::Error setCurrentCUDAStream(cudaStream_t stream, std::int8_t device);
}  // namespace executorch::backends::cuda
