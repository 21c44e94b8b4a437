#include "queue.hpp"

#include <executorch/runtime/platform/log.h>

#include <utility>

namespace modelbuild::cuda {
namespace {

thread_local Queue* entered = nullptr;

[[noreturn]] void fail(const std::string& message) {
  cudaGetLastError();
  throw modelbuild::Error(modelbuild::Error::Kind::kProgram, message);
}

void check(const char* what, cudaError_t error) {
  if (error != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorString(error));
}

// Returns whether a stream belongs to the current GPU, whichever that is.
bool any_device(cudaStream_t stream) { return stream == cudaStreamLegacy || stream == cudaStreamPerThread; }

class Graph final : public Recording {
 public:
  Graph(int device, cudaGraph_t graph) : device(device) {
    const DeviceGuard guard(device);
    const cudaError_t error = cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    cudaGraphDestroy(graph);
    check("a CUDA graph cannot be made of the run", error);
  }
  ~Graph() override {
    const DeviceGuard guard(device);
    cudaGraphExecDestroy(executable);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int device;
  cudaGraphExec_t executable = nullptr;
};

}  // namespace

Queue::~Queue() {
  if (done_ != nullptr) cudaEventDestroy(done_);
  for (const auto& [device, stream] : streams_) {
    const DeviceGuard guard(device);
    cudaStreamDestroy(stream);
  }
}

void Queue::enter(std::optional<void*> stream) {
  outer_ = entered;
  entered = this;
  transfers = {};
  caller_.reset();
  // The CUDA delegate's shims do not accept null as the default stream.
  if (stream) caller_ = *stream == nullptr ? cudaStreamLegacy : static_cast<cudaStream_t>(*stream);
  device_.reset();
  if (done_on_ && (done_on_ != caller_ || done_on_ == cudaStreamPerThread)) {
    cudaEventSynchronize(done_);
    done_on_.reset();
  }
}

void Queue::write(int device, void* to, const void* from, std::size_t bytes) {
  const DeviceGuard guard(device);
  check("copy to the device", guard.error());
  cudaStream_t stream = nullptr;
  if (this->stream(device, &stream) != Error::Ok) fail("copy to the device: there is no stream for it");
  check("copy to the device", cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  check("copy to the device", cudaStreamSynchronize(stream));
  transfers.copied_in += bytes;
}

Transfers Queue::leave() {
  entered = outer_;
  if (recording_) {  // the run failed while it was recorded
    cudaGraph_t graph = nullptr;
    if (end_capture(&graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    return transfers;
  }
  if (caller_) {
    if (device_) mark_done();
    return transfers;
  }
  for (const auto& [device, stream] : streams_) {
    const DeviceGuard guard(device);
    const cudaError_t error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
      fail("a run on cuda:" + std::to_string(device) + " failed: " + cudaGetErrorString(error));
    }
  }
  return transfers;
}

void Queue::mark_done() {
  const DeviceGuard guard(*device_);
  if (done_ != nullptr && done_device_ != *device_) cudaEventDestroy(std::exchange(done_, nullptr));
  if (done_ == nullptr) check("stream of the caller", cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
  done_device_ = *device_;
  check("stream of the caller", cudaEventRecord(done_, *caller_));
  done_on_ = caller_;
}

void Queue::begin_recording() { recording_ = true; }

std::unique_ptr<Recording> Queue::end_recording() {
  const int device = captured_.value_or(0);
  cudaGraph_t graph = nullptr;
  const cudaError_t error = end_capture(&graph);
  if (error != cudaSuccess) fail(std::string("a CUDA graph cannot be made of the run: ") + cudaGetErrorString(error));
  if (graph == nullptr) fail("a CUDA graph cannot be made of the run: nothing was enqueued on a GPU");
  return std::make_unique<Graph>(device, graph);
}

cudaError_t Queue::end_capture(cudaGraph_t* graph) {
  recording_ = false;
  if (!captured_) return cudaSuccess;
  const int device = *std::exchange(captured_, std::nullopt);
  const DeviceGuard guard(device);
  return cudaStreamEndCapture(streams_.at(device), graph);
}

void Queue::replay(const Recording& recording) {
  const auto& graph = static_cast<const Graph&>(recording);
  const DeviceGuard guard(graph.device);
  check("replay", guard.error());
  cudaStream_t stream = nullptr;
  if (this->stream(graph.device, &stream) != Error::Ok) fail("replay of a CUDA graph: there is no stream for it");
  check("replay of a CUDA graph", cudaGraphLaunch(graph.executable, stream));
}

Error Queue::stream(int device, cudaStream_t* found) {
  if (recording_) return begin_capture(device, found);
  if (!caller_) return own_stream(device, found);
  int own = device;
  if (!any_device(*caller_)) MB_CUDA("stream of the caller", cudaStreamGetDevice(*caller_, &own));
  if (own != device) {
    ET_LOG(Error, "the caller's stream belongs to cuda:%d, but the work is for cuda:%d", own, device);
    return Error::InvalidArgument;
  }
  *found = *caller_;
  device_ = device;
  return Error::Ok;
}

Error Queue::own_stream(int device, cudaStream_t* found) {
  if (const auto known = streams_.find(device); known != streams_.end()) {
    *found = known->second;
    return Error::Ok;
  }
  const DeviceGuard guard(device);
  MB_CUDA("stream", guard.error());
  MB_CUDA("stream", cudaStreamCreateWithFlags(found, cudaStreamNonBlocking));
  streams_[device] = *found;
  return Error::Ok;
}

// Captures on the method's own stream, whichever stream will replay the graph: not every stream can be captured.
Error Queue::begin_capture(int device, cudaStream_t* found) {
  if (captured_ && *captured_ != device) {
    ET_LOG(Error, "parts on cuda:%d and cuda:%d cannot be in one CUDA graph", *captured_, device);
    return Error::NotSupported;
  }
  if (const Error error = own_stream(device, found); error != Error::Ok || captured_) return error;
  // Thread-local mode: calls that a capture would omit, such as a wait for a result, fail instead.
  MB_CUDA("capture", cudaStreamBeginCapture(*found, cudaStreamCaptureModeThreadLocal));
  captured_ = device;
  return Error::Ok;
}

Error current_stream(int device, cudaStream_t* found) {
  if (entered != nullptr) return entered->stream(device, found);
  *found = cudaStreamPerThread;
  return Error::Ok;
}

bool recording() { return entered != nullptr && entered->recording(); }

bool in_run() { return entered != nullptr; }

void count_staged(std::size_t in, std::size_t out) {
  if (entered == nullptr) return;
  entered->transfers.staged_in += in;
  entered->transfers.staged_out += out;
}

void count_copied(std::size_t in, std::size_t out) {
  if (entered == nullptr) return;
  entered->transfers.copied_in += in;
  entered->transfers.copied_out += out;
}

}  // namespace modelbuild::cuda
