// What this library asks of CUDA. libmodelbuild_cuda provides it when a delegate that needs it is loaded; on a machine
// without CUDA nothing does, and everything that runs on the CPU works.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

// What a run enqueued on a GPU, kept to be enqueued again as a whole: a CUDA graph.
class Recording {
 public:
  virtual ~Recording() = default;
};

// The streams of one method, one a GPU. While a run is entered, delegates on this thread enqueue on them.
class MethodQueue {
 public:
  virtual ~MethodQueue() = default;
  // From here on this thread's delegates enqueue on the queue's streams, or on the caller's one.
  virtual void enter(std::optional<void*> stream) = 0;
  // Copies from the host behind what is enqueued on a GPU's stream, and waits for it. Throws Error.
  virtual void write(int device, void* to, const void* from, std::size_t bytes) = 0;
  // The end of a run: waits for the queue's streams (not for the caller's). Throws Error when what was enqueued failed.
  virtual Transfers leave() = 0;
  // From here to end_recording() what delegates enqueue is recorded and not done. All three throw Error.
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<Recording> end_recording() = 0;
  virtual void replay(const Recording& recording) = 0;
};

class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  virtual int device_count() = 0;
  virtual std::optional<int> device_of(const void* pointer) = 0;  // the GPU in whose memory it points
  virtual void* allocate(int device, std::size_t bytes) = 0;      // throws Error
  virtual void release(int device, void* pointer) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes, int device) = 0;  // waits; throws Error
  virtual std::unique_ptr<MethodQueue> make_queue() = 0;
  virtual void register_allocator() = 0;  // with ExecuTorch, unless there is one
};

void provide_device_services(DeviceServices* services);
DeviceServices* device_services();          // nullptr where none are loaded
DeviceServices& require_device_services();  // throws Error instead

}  // namespace modelbuild
