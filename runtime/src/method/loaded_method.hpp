// A loaded method, and its memory.
#pragma once

#include <executorch/extension/module/module.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/arenas.hpp"
#include "devices/device_services.hpp"
#include "method/direct_inputs.hpp"
#include "modelbuild/runtime.hpp"

namespace modelbuild {

// The loaded program of a method, and the module of it: numbers by which delegates know what is in common.
struct Owner {
  int program = 0;
  int module = 0;
};

// Must outlive its module, whose method points into its arenas. All functions throw Error.
class LoadedMethod {
 public:
  // With a profiler, which must outlive the module, it records the runs. A shared state must outlive the module, too.
  LoadedMethod(executorch::extension::Module* module, const MethodDescription& described, std::string program,
               Owner owner, executorch::runtime::EventTracer* profiler = nullptr, SharedState* shared = nullptr);

  // A run: set inputs and outputs in the queue, execute the method, get the outputs. `given` must be checked before.
  void set_inputs(std::span<const Tensor> given);
  void set_outputs(std::span<const Tensor> given);
  std::vector<executorch::runtime::EValue> execute();
  std::vector<Value> outputs(const std::vector<executorch::runtime::EValue>& results);

  MethodQueue* queue() const { return queue_.get(); }  // nullptr if no CUDA delegate is loaded

 private:
  struct Staged {
    DeviceBuffer buffer;
    std::size_t size;
  };

  void set_input(std::size_t index, const Port& port, const Tensor& given);
  void* stage(std::size_t index, const Port& port, const void* data, std::size_t bytes);
  void* own_output(std::size_t index, const Port& port);

  executorch::extension::Module* module_;
  const MethodDescription& described_;
  std::string program_;               // its path, for messages
  std::vector<bool> planned_inputs_;  // true if the memory is the program's own
  std::vector<bool> planned_outputs_;
  std::unique_ptr<Arenas> arenas_;
  std::unique_ptr<MethodQueue> queue_;
  std::unique_ptr<DirectInputs> direct_;
  std::map<std::size_t, Staged> staged_inputs_;  // for host tensors if the program expects device memory
  // For outputs without memory of the program's plan or of the caller.
  std::map<std::size_t, HostBuffer> own_outputs_;
  std::map<std::size_t, DeviceBuffer> own_device_outputs_;
  std::vector<std::vector<char>> rearranged_;  // of the last run: tensors in another order than row-major
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
