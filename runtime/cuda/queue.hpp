// The streams on which delegates enqueue, and the bytes that they move. All delegates of a method share one stream per
// GPU, so the work of one is complete for the next without waiting.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <optional>

#include "device.hpp"
#include "devices/device_services.hpp"

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
  std::optional<int> device_;    // the GPU where this run enqueued on the caller's stream
  // The end of the last run on a caller's stream; a run on another stream waits for it.
  cudaEvent_t done_ = nullptr;
  int done_device_ = 0;
  std::optional<cudaStream_t> done_on_;
  Queue* outer_ = nullptr;  // entered before this one on the same thread, if a program runs within another
};

// Returns a GPU's stream for this thread's run. Outside a run (in another runtime) it is the thread's default stream.
Error current_stream(int device, cudaStream_t* found);

// Returns whether this thread's run is being recorded as a CUDA graph; then no wait and no host copy is allowed.
bool recording();

// Returns whether this thread is in a run, whose end waits for enqueued work. Otherwise delegates must wait themselves.
bool in_run();

// Adds to the run's report.
void count_staged(std::size_t in, std::size_t out);
void count_copied(std::size_t in, std::size_t out);

}  // namespace modelbuild::cuda
