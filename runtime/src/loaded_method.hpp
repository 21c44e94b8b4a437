// A method that is loaded, and the memory that it works with.
#pragma once

#include <executorch/extension/module/module.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arenas.hpp"
#include "device_services.hpp"
#include "modelbuild/runtime.hpp"

namespace modelbuild {

// It outlives the module that it is of, whose method points into its arenas. Throws Error, as all that it does.
class LoadedMethod {
 public:
  LoadedMethod(executorch::extension::Module* module, const MethodDescription& described, std::string program);

  // One run: inputs and outputs in the queue, then the method, then what came out. `given` are checked.
  void set_inputs(std::span<const Tensor> given);
  void set_outputs(std::span<const Tensor> given);
  std::vector<executorch::runtime::EValue> execute();
  std::vector<Value> outputs(const std::vector<executorch::runtime::EValue>& results);

  MethodQueue* queue() const { return queue_.get(); }  // nullptr where no CUDA delegate is loaded

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
  std::vector<bool> planned_inputs_;  // whether memory is the program's own
  std::vector<bool> planned_outputs_;
  std::unique_ptr<Arenas> arenas_;
  std::unique_ptr<MethodQueue> queue_;
  std::map<std::size_t, Staged> staged_inputs_;  // for host tensors where the program wants device memory
  // For outputs that the program did not plan memory for and the caller gave none for.
  std::map<std::size_t, HostBuffer> own_outputs_;
  std::map<std::size_t, DeviceBuffer> own_device_outputs_;
  std::vector<std::vector<char>> rearranged_;  // of the last run: tensors in another order than row-major
};

// While this lives, what delegates on this thread enqueue goes to a queue. It is left whatever happens, so that the
// thread's next run does not find it entered.
class Entered {
 public:
  Entered(MethodQueue* queue, std::optional<void*> stream);
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  Transfers leave();  // throws Error where what was enqueued failed

 private:
  MethodQueue* queue_;
};

}  // namespace modelbuild
