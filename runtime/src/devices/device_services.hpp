// The CUDA services that this library uses. libmodelbuild_cuda provides them when a delegate that needs it is loaded. A
// machine without CUDA has none, and programs on the CPU work without them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "api/runtime.hpp"

namespace modelbuild {

// A run's work on a GPU, recorded as a CUDA graph to enqueue again.
class Recording {
 public:
  virtual ~Recording() = default;
};

// The streams of a method, one per GPU. While a run is entered, delegates on this thread enqueue on them.
class MethodQueue {
 public:
  virtual ~MethodQueue() = default;
  // Makes this thread's delegates enqueue on the queue's streams, or on the caller's.
  virtual void enter(std::optional<void*> stream) = 0;
  // Copies from the host after all work on a GPU's stream, and waits. Throws Error.
  virtual void write(int device, void* to, const void* from, std::size_t bytes) = 0;
  // Ends a run: waits for the queue's streams (not for the caller's). Throws Error if enqueued work failed.
  virtual Transfers leave() = 0;
  // Until end_recording(), the delegates' work is recorded instead of done. All three functions throw Error.
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

MODELBUILD_API void provide_device_services(DeviceServices* services);
DeviceServices* device_services();          // nullptr if none are loaded
DeviceServices& require_device_services();  // throws Error instead

}  // namespace modelbuild
