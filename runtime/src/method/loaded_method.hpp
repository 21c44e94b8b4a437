// A loaded method, and its memory.
#pragma once

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/executor/method.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/runtime.hpp"
#include "devices/arenas.hpp"
#include "devices/device_services.hpp"
#include "method/loaded_program.hpp"

namespace modelbuild {

// The numbers of a method's loaded program and module. By them, delegates know which methods share state.
struct Owner {
  int program = 0;
  int module = 0;
};

// All functions throw Error.
class LoadedMethod {
 public:
  // The program, a profiler, which records the runs, and a shared state must outlive it. `path` is for messages.
  LoadedMethod(const LoadedProgram& program, const MethodDescription& described, std::string path, Owner owner,
               executorch::runtime::EventTracer* profiler = nullptr, SharedState* shared = nullptr);

  // A run: set inputs and outputs in the queue, execute the method, get the outputs. `given` must be checked before.
  void set_inputs(std::span<const Tensor> given);
  void set_outputs(std::span<const Tensor> given);
  void execute();
  std::vector<Value> outputs();

  MethodQueue* queue() const { return queue_.get(); }  // nullptr if no CUDA delegate is loaded

 private:
  struct Staged {
    DeviceBuffer buffer;
    std::size_t size;
  };

  void set_input(std::size_t index, const Port& port, const Tensor& given);
  void* stage(std::size_t index, const Port& port, const void* data, std::size_t bytes);
  void* own_output(std::size_t index, const Port& port);

  const MethodDescription& described_;
  std::string path_;
  std::vector<bool> planned_inputs_;  // true if the memory is the program's own
  std::vector<bool> planned_outputs_;
  std::unique_ptr<Arenas> arenas_;
  std::unique_ptr<MethodQueue> queue_;
  std::map<std::size_t, Staged> staged_inputs_;  // for host tensors if the program expects device memory
  // For outputs that have memory neither from the program's plan nor from the caller.
  std::map<std::size_t, HostBuffer> own_outputs_;
  std::map<std::size_t, DeviceBuffer> own_device_outputs_;
  std::vector<std::vector<char>> rearranged_;  // of the last run: tensors in another order than row-major
  // Destroyed first: it uses all the memory above, and its delegates the queue.
  executorch::extension::MallocMemoryAllocator structures_;
  executorch::extension::MallocMemoryAllocator temporary_;
  std::optional<executorch::runtime::MemoryManager> memory_;
  std::optional<executorch::runtime::Method> method_;
};

// Enters a queue for delegates on this thread, and leaves it on destruction, so that the thread's next run does not
// find it entered.
class Entered {
 public:
  Entered(MethodQueue* queue, std::optional<void*> stream);
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  Transfers leave();  // throws Error if enqueued work failed

 private:
  MethodQueue* queue_;
};

}  // namespace modelbuild
