// On which stream delegates enqueue, and what they moved. One stream a method and GPU, shared by all delegates of the
// method: what one enqueues the next finds done, without either waiting for it.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <optional>

#include "device.hpp"
#include "device_services.hpp"

namespace modelbuild::cuda {

class Queue final : public MethodQueue {
 public:
  ~Queue() override;
  void enter(std::optional<void*> stream) override;
  Transfers leave() override;

  Error stream(int device, cudaStream_t* found);
  Transfers transfers;

 private:
  std::map<int, cudaStream_t> streams_;
  std::optional<cudaStream_t> caller_;
  Queue* outer_ = nullptr;  // entered before this one on the same thread: a program run from within another
};

// The stream of a GPU for this thread's run. Outside of one (under another runtime) the thread's own default stream.
Error current_stream(int device, cudaStream_t* found);

// Whether this thread is in a run, whose end waits for what was enqueued. If not, delegates have to wait themselves.
bool in_run();

// Adds to what the run reports.
void count_staged(std::size_t in, std::size_t out);
void count_copied(std::size_t in, std::size_t out);

}  // namespace modelbuild::cuda
