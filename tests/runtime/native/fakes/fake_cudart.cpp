// A CUDA runtime without a GPU. Device memory is host memory that is remembered
// by GPU; a stream is a list of what was enqueued, which is done only when
// something waits for it, so that a missing wait shows as a wrong result.
//
// FAKE_CUDA_GPUS   how many GPUs there are (2)
// FAKE_CUDA_TRACE  a file to append each call to, and at the end what was not
// freed FAKE_CUDA_FAIL   "cudaMalloc:2": the second call of that function fails
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

// `struct CUstream_st` and `CUevent_st` are CUDA's own names for what the
// handles point to.
struct CUstream_st {
  int device;
  std::deque<std::function<void()>> work;
  std::size_t enqueued = 0;
  std::size_t done = 0;
};
struct CUevent_st {
  CUstream_st* stream = nullptr;
  std::size_t position = 0;
};

namespace {

struct Block {
  std::size_t size;
  int device;
};

std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;
std::map<char*, Block> blocks;
std::set<CUstream_st*> streams;
std::set<CUevent_st*> events;
std::map<std::string, int> calls;
thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;

int gpus() {
  static const int count = std::getenv("FAKE_CUDA_GPUS") != nullptr ? std::atoi(std::getenv("FAKE_CUDA_GPUS")) : 2;
  return count;
}

struct Trace {
  std::FILE* file = nullptr;
  Trace() {
    if (const char* path = std::getenv("FAKE_CUDA_TRACE")) file = std::fopen(path, "a");
  }
  ~Trace() {
    if (file == nullptr) return;
    std::fprintf(file, "end blocks=%zu streams=%zu events=%zu\n", blocks.size(), streams.size(), events.size());
    std::fclose(file);
  }
} to;

void trace(const char* function, std::size_t bytes = 0, const char* what = "") {
  if (to.file == nullptr) return;
  std::fprintf(to.file, "%s device=%d bytes=%zu %s\n", function, current, bytes, what);
  std::fflush(to.file);
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

// Counts the call; whether it is the one that is to fail.
bool fails(const char* function) {
  static const std::string wanted = std::getenv("FAKE_CUDA_FAIL") != nullptr ? std::getenv("FAKE_CUDA_FAIL") : "";
  const int number = ++calls[function];
  const bool failing = wanted == std::string(function) + ":" + std::to_string(number);
  if (failing) trace(function, 0, "fails");
  return failing;
}

int device_of(const void* pointer) {
  auto found = blocks.upper_bound(static_cast<char*>(const_cast<void*>(pointer)));
  if (found == blocks.begin()) return -1;
  --found;
  return static_cast<const char*>(pointer) < found->first + found->second.size ? found->second.device : -1;
}

bool holds(const void* pointer, std::size_t bytes) {
  auto found = blocks.upper_bound(static_cast<char*>(const_cast<void*>(pointer)));
  if (found == blocks.begin()) return false;
  --found;
  return static_cast<const char*>(pointer) + bytes <= found->first + found->second.size;
}

// The default streams of each GPU; they live as long as the process.
CUstream_st* resolve(cudaStream_t stream) {
  if (stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread) return stream;
  static std::map<int, CUstream_st> defaults;
  return &defaults.try_emplace(current, CUstream_st{current, {}}).first->second;
}

void drain(CUstream_st* stream, std::size_t until) {
  while (stream->done < until) {
    const std::function<void()> next = std::move(stream->work.front());
    stream->work.pop_front();
    ++stream->done;
    next();
  }
}

void drain_all() {
  for (CUstream_st* stream : streams) drain(stream, stream->enqueued);
  drain(resolve(nullptr), resolve(nullptr)->enqueued);
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  CUstream_st* to = resolve(stream);
  to->work.push_back(std::move(work));
  ++to->enqueued;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, bool async, cudaStream_t stream) {
  const bool device_to = device_of(to) >= 0;
  const bool device_from = device_of(from) >= 0;
  const char* what = device_from ? (device_to ? "d2d" : "d2h") : (device_to ? "h2d" : "h2h");
  trace(async ? "cudaMemcpyAsync" : "cudaMemcpy", bytes, what);
  const bool wrong = (kind == cudaMemcpyHostToDevice && (!device_to || device_from)) ||
                     (kind == cudaMemcpyDeviceToHost && (device_to || !device_from)) ||
                     (kind == cudaMemcpyDeviceToDevice && (!device_to || !device_from)) ||
                     (device_to && !holds(to, bytes)) || (device_from && !holds(from, bytes));
  if (wrong) return cudaErrorInvalidValue;
  if (!async) {
    drain_all();
    std::memmove(to, from, bytes);
  } else if (!device_from) {  // pageable memory is read at once
    std::string data(static_cast<const char*>(from), bytes);
    enqueue(stream, [to, data = std::move(data)] { std::memcpy(to, data.data(), data.size()); });
  } else {
    enqueue(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  }
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus();
  return result(gpus() > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return result(gpus() > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  trace("cudaSetDevice", 0, std::to_string(device).c_str());
  if (device < 0 || device >= gpus()) return result(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  const Lock lock(mutex);
  trace("cudaMalloc", bytes);
  if (fails("cudaMalloc") || bytes > (1ULL << 40)) return result(cudaErrorMemoryAllocation);
  *pointer = std::malloc(bytes == 0 ? 1 : bytes);
  std::memset(*pointer, 0xab, bytes);
  blocks[static_cast<char*>(*pointer)] = {bytes, current};
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  const Lock lock(mutex);
  if (pointer == nullptr) return cudaSuccess;
  trace("cudaFree");
  drain_all();
  if (blocks.erase(static_cast<char*>(pointer)) == 0) return result(cudaErrorInvalidValue);
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const Lock lock(mutex);
  if (fails("cudaMemcpy")) return result(cudaErrorIllegalAddress);
  return result(copy(to, from, bytes, kind, false, nullptr));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Lock lock(mutex);
  if (fails("cudaMemcpyAsync")) return result(cudaErrorIllegalAddress);
  return result(copy(to, from, bytes, kind, true, stream));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const Lock lock(mutex);
  enqueue(stream, [to, value, bytes] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  const Lock lock(mutex);
  trace("cudaStreamCreate");
  if (fails("cudaStreamCreate")) return result(cudaErrorMemoryAllocation);
  *stream = new CUstream_st{current, {}};
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(mutex);
  trace("cudaStreamDestroy");
  drain(stream, stream->enqueued);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(mutex);
  trace("cudaStreamSynchronize");
  if (fails("cudaStreamSynchronize")) return result(cudaErrorLaunchFailure);
  drain(resolve(stream), resolve(stream)->enqueued);
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const Lock lock(mutex);
  *device = resolve(stream)->device;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
  const Lock lock(mutex);
  trace("cudaDeviceSynchronize");
  drain_all();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const Lock lock(mutex);
  enqueue(stream, [function, data] { function(data); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  const Lock lock(mutex);
  *event = new CUevent_st();
  events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(mutex);
  events.erase(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(mutex);
  event->stream = resolve(stream);
  event->position = event->stream->enqueued;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(mutex);
  trace("cudaEventSynchronize");
  if (event->stream != nullptr && (streams.count(event->stream) != 0 || event->stream == resolve(nullptr))) {
    drain(event->stream, event->position);
  }
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Lock lock(mutex);
  *attributes = {};
  const int device = device_of(pointer);
  attributes->type = device >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  attributes->device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last;
  last = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError(void) { return last; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "a fake error";
  }
}
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorFake"; }

// What the AOTInductor shims have of kernels of their own: they are registered
// when they are loaded, and never launched.
void** __cudaRegisterFatBinary(void*) {
  static void* binary[1];
  return binary;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void*) { std::abort(); }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { std::abort(); }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { std::abort(); }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) { std::abort(); }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) { std::abort(); }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { std::abort(); }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int*, const void*, int, size_t, unsigned int) {
  std::abort();
}

}  // extern "C"
