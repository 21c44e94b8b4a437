// A CUDA runtime without a GPU. Device memory is host memory that is remembered
// by GPU; a stream is a list of what was enqueued, which is done only when
// something waits for it, so that a missing wait shows as a wrong result.
//
// FAKE_CUDA_GPUS   how many GPUs there are (2)
// FAKE_CUDA_CAPABILITY  their compute capability (1.1)
// FAKE_CUDA_DRIVER the version of CUDA that the driver supports, as 12040; 0 for no driver (the runtime's)
// FAKE_CUDA_TRACE  a file to append each call to, and at the end what was not
// freed FAKE_CUDA_FAIL   "cudaMalloc:2": the second call of that function fails
#include "fake_cudart.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

// `struct CUstream_st` and `CUevent_st` are CUDA's own names for what the
// handles point to.
struct CUgraph_st {
  std::vector<std::function<void()>> work;
  std::vector<void*> memory;
};
struct CUgraphExec_st {
  std::shared_ptr<CUgraph_st> graph;
};
struct CUstream_st {
  int device;
  std::deque<std::function<void()>> work;
  std::size_t enqueued = 0;
  std::size_t done = 0;
  CUgraph_st* capture = nullptr;
  bool broken = false;    // the capture: something was called that cannot be in one
  bool blocking = false;  // ordered with the default stream
};
struct CUevent_st {
  CUstream_st* stream = nullptr;
  std::size_t position = 0;
  bool captured = false;
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
std::set<CUgraphExec_st*> graphs;
std::map<std::string, int> calls;
thread_local int current = 0;
thread_local CUstream_st* capturing = nullptr;  // the stream that this thread captures
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
    std::fprintf(file, "end blocks=%zu streams=%zu events=%zu graphs=%zu\n", blocks.size(), streams.size(),
                 events.size(), graphs.size());
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

// What a call without a stream waits for: the default stream, and streams that are ordered with it.
void drain_default() {
  for (CUstream_st* stream : streams) {
    if (stream->blocking) drain(stream, stream->enqueued);
  }
  drain(resolve(nullptr), resolve(nullptr)->enqueued);
}

void drain_all() {
  for (CUstream_st* stream : streams) drain(stream, stream->enqueued);
  drain(resolve(nullptr), resolve(nullptr)->enqueued);
}

// Waits and the like cannot be in a capture of the thread-local kind; the capture fails with them.
bool breaks_capture(const char* function) {
  if (capturing == nullptr) return false;
  trace(function, 0, "breaks a capture");
  capturing->broken = true;
  return true;
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  CUstream_st* to = resolve(stream);
  if (to->capture != nullptr) return to->capture->work.push_back(std::move(work));
  to->work.push_back(std::move(work));
  ++to->enqueued;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, bool async, cudaStream_t stream) {
  const bool device_to = device_of(to) >= 0;
  const bool device_from = device_of(from) >= 0;
  const char* what = device_from ? (device_to ? "d2d" : "d2h") : (device_to ? "h2d" : "h2h");
  char described[64];
  std::snprintf(described, sizeof described, "from=%p %s", from, what);
  trace(async ? "cudaMemcpyAsync" : "cudaMemcpy", bytes, described);
  const bool wrong = (kind == cudaMemcpyHostToDevice && (!device_to || device_from)) ||
                     (kind == cudaMemcpyDeviceToHost && (device_to || !device_from)) ||
                     (kind == cudaMemcpyDeviceToDevice && (!device_to || !device_from)) ||
                     (device_to && !holds(to, bytes)) || (device_from && !holds(from, bytes));
  if (wrong) return cudaErrorInvalidValue;
  if (!async) {
    drain_default();
    std::memmove(to, from, bytes);
  } else if (resolve(stream)->capture != nullptr) {
    enqueue(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
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
  if (breaks_capture("cudaMalloc")) return result(cudaErrorStreamCaptureUnsupported);
  trace("cudaMalloc", bytes);
  if (fails("cudaMalloc") || bytes > (1ULL << 27)) return result(cudaErrorMemoryAllocation);
  *pointer = std::malloc(bytes == 0 ? 1 : bytes);
  std::memset(*pointer, 0xab, bytes);
  blocks[static_cast<char*>(*pointer)] = {bytes, current};
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  const Lock lock(mutex);
  if (pointer == nullptr) return cudaSuccess;
  if (breaks_capture("cudaFree")) return result(cudaErrorStreamCaptureUnsupported);
  trace("cudaFree");
  drain_all();
  if (blocks.erase(static_cast<char*>(pointer)) == 0) return result(cudaErrorInvalidValue);
  std::free(pointer);
  return cudaSuccess;
}
// In a capture the memory is the graph's, and stays as long as it.
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  const Lock lock(mutex);
  CUgraph_st* graph = resolve(stream)->capture;
  if (graph == nullptr) return cudaMalloc(pointer, bytes);
  *pointer = std::calloc(bytes == 0 ? 1 : bytes, 1);
  blocks[static_cast<char*>(*pointer)] = {bytes, current};
  graph->memory.push_back(*pointer);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return resolve(stream)->capture != nullptr ? cudaSuccess : cudaFree(pointer);
}
// Pools keep no memory here: requests are only recorded.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = reinterpret_cast<cudaMemPool_t>(static_cast<std::uintptr_t>(device) + 1);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const Lock lock(mutex);
  if (attribute != cudaMemPoolAttrReleaseThreshold) return result(cudaErrorInvalidValue);
  trace("cudaMemPoolSetAttribute", *static_cast<std::uint64_t*>(value));
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t least) {
  const Lock lock(mutex);
  trace("cudaMemPoolTrimTo", least);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const Lock lock(mutex);
  if (breaks_capture("cudaMemcpy")) return result(cudaErrorStreamCaptureUnsupported);
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
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  const Lock lock(mutex);
  trace("cudaStreamCreate");
  if (fails("cudaStreamCreate")) return result(cudaErrorMemoryAllocation);
  *stream = new CUstream_st{current, {}};
  (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
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
  if (breaks_capture("cudaStreamSynchronize")) return result(cudaErrorStreamCaptureUnsupported);
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
  if (breaks_capture("cudaDeviceSynchronize")) return result(cudaErrorStreamCaptureUnsupported);
  trace("cudaDeviceSynchronize");
  drain_all();
  return cudaSuccess;
}
void fake_launch(cudaStream_t stream, void (*kernel)(const void*), const void* arguments, std::size_t bytes) {
  const Lock lock(mutex);
  std::vector<std::max_align_t> copy((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  std::memcpy(copy.data(), arguments, bytes);
  enqueue(stream, [kernel, copy = std::move(copy)] { kernel(copy.data()); });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(mutex);
  trace("cudaStreamBeginCapture", 0, mode == cudaStreamCaptureModeThreadLocal ? "thread-local" : "?");
  if (streams.count(stream) == 0 || capturing != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  stream->capture = new CUgraph_st();
  stream->broken = false;
  capturing = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(mutex);
  trace("cudaStreamEndCapture", 0, stream->broken ? "invalid" : "");
  capturing = nullptr;
  *graph = std::exchange(stream->capture, nullptr);
  if (!stream->broken) return cudaSuccess;
  cudaGraphDestroy(std::exchange(*graph, nullptr));
  return result(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const Lock lock(mutex);
  trace("cudaGraphInstantiate", graph->work.size());
  if (fails("cudaGraphInstantiate")) return result(cudaErrorMemoryAllocation);
  const auto release = [](CUgraph_st* own) {
    const Lock again(mutex);
    for (void* pointer : own->memory) {
      blocks.erase(static_cast<char*>(pointer));
      std::free(pointer);
    }
    delete own;
  };
  *executable = new CUgraphExec_st{{new CUgraph_st(*graph), release}};
  graph->memory.clear();  // the executable graph's from now on
  graphs.insert(*executable);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(mutex);
  for (void* pointer : graph->memory) {
    blocks.erase(static_cast<char*>(pointer));
    std::free(pointer);
  }
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Lock lock(mutex);
  trace("cudaGraphLaunch");
  if (fails("cudaGraphLaunch")) return result(cudaErrorLaunchFailure);
  enqueue(stream, [graph = executable->graph] {
    for (const auto& work : graph->work) work();
  });
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Lock lock(mutex);
  trace("cudaGraphExecDestroy");
  graphs.erase(executable);
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  const Lock lock(mutex);
  *event = new CUevent_st();
  events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(mutex);
  events.erase(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(mutex);
  event->captured = resolve(stream)->capture != nullptr;
  event->stream = resolve(stream);
  event->position = event->stream->enqueued;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(mutex);
  if (event->captured) return result(cudaErrorCapturedEvent);
  if (breaks_capture("cudaEventSynchronize")) return result(cudaErrorStreamCaptureUnsupported);
  trace("cudaEventSynchronize");
  if (event->stream != nullptr && (streams.count(event->stream) != 0 || event->stream == resolve(nullptr))) {
    drain(event->stream, event->position);
  }
  return cudaSuccess;
}
// Whoever asks has waited long enough.
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Lock lock(mutex);
  *attributes = {};
  const int device = device_of(pointer);
  attributes->type = device >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  attributes->device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const char* capability = std::getenv("FAKE_CUDA_CAPABILITY");
  const char* minor = capability == nullptr ? nullptr : std::strchr(capability, '.');
  *value = 1;
  if (minor != nullptr && attribute == cudaDevAttrComputeCapabilityMajor) *value = std::atoi(capability);
  if (minor != nullptr && attribute == cudaDevAttrComputeCapabilityMinor) *value = std::atoi(minor + 1);
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  const char* given = std::getenv("FAKE_CUDA_DRIVER");
  *version = given == nullptr ? CUDART_VERSION : std::atoi(given);
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
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
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
