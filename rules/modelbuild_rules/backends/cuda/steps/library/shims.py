"""C++ source of functions that AOTInductor's wrapper calls and the CUDA delegate's runtime lacks."""

SOURCE = """\
#include <cstddef>
#include <cstdint>

extern "C" {

int aoti_torch_get_current_cuda_stream(std::int32_t device, void** stream);
int aoti_torch_get_data_ptr(void* tensor, void** data);
int aoti_torch_get_device_index(void* tensor, std::int32_t* device);
int cudaMemcpyAsync(void* to, const void* from, std::size_t size, int kind, void* stream);
int cudaStreamSynchronize(void* stream);

// Never called, because weights are not in pinned memory.
__attribute__((visibility("hidden"))) int aoti_torch_empty_strided_pinned() { return 1; }

// Reads a number from the GPU; the host waits for it. A size that depends on values is read so.
__attribute__((visibility("hidden"))) int aoti_torch_item_int64(void* tensor, std::int64_t* number) {
  constexpr int kToHost = 2;  // cudaMemcpyDeviceToHost
  void* data = nullptr;
  void* stream = nullptr;
  std::int32_t device = 0;
  return aoti_torch_get_data_ptr(tensor, &data) != 0 || aoti_torch_get_device_index(tensor, &device) != 0 ||
         aoti_torch_get_current_cuda_stream(device, &stream) != 0 ||
         cudaMemcpyAsync(number, data, sizeof(*number), kToHost, stream) != 0 || cudaStreamSynchronize(stream) != 0;
}
}
"""
