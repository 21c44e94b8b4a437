// On which stream delegates enqueue, and what they moved. One stream a method and GPU, shared by all delegates of the
// method: what one enqueues the next finds done, without either waiting for it.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <optional>

#include "device.hpp"
#include "device_services.hpp"

namespace modelbuild::cuda {

class Queue final : public MethodQueue {
 public:
  ~Queue() override;
  void enter(std::optional<void*> stream) override;
  void write(int device, void* to, const void* from, std::size_t bytes) override;
  Transfers leave() override;
  void begin_recording() override;
  std::unique_ptr<Recording> end_recording() override;
  void replay(const Recording& recording) override;

  Error stream(int device, cudaStream_t* found);
  bool recording() const { return recording_; }
  Transfers transfers;

 private:
  Error own_stream(int device, cudaStream_t* found);
  Error begin_capture(int device, cudaStream_t* found);
  cudaError_t end_capture(cudaGraph_t* graph);
  void mark_done();

  std::map<int, cudaStream_t> streams_;
  std::optional<cudaStream_t> caller_;
  bool recording_ = false;
  std::optional<int> captured_;  // the GPU whose own stream is being captured
  std::optional<int> device_;    // where this run enqueued on the caller's stream
  // The end of the last run on a stream of a caller's: a run on another stream begins after it.
  cudaEvent_t done_ = nullptr;
  int done_device_ = 0;
  std::optional<cudaStream_t> done_on_;
  Queue* outer_ = nullptr;  // entered before this one on the same thread: a program run from within another
};

// The stream of a GPU for this thread's run. Outside of one (under another runtime) the thread's own default stream.
Error current_stream(int device, cudaStream_t* found);

// Whether this thread's run is being recorded as a CUDA graph: nothing may be waited for or go by the host.
bool recording();

// Whether this thread is in a run, whose end waits for what was enqueued. If not, delegates have to wait themselves.
bool in_run();

// Adds to what the run reports.
void count_staged(std::size_t in, std::size_t out);
void count_copied(std::size_t in, std::size_t out);

}  // namespace modelbuild::cuda
