#include "method/loaded_method.hpp"

#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <utility>

#include "api/fail.hpp"
#include "api/log.hpp"
#include "method/error_text.hpp"
#include "method/layout.hpp"
#include "method/values.hpp"

namespace modelbuild {
namespace {

namespace er = executorch::runtime;

[[noreturn]] void refuse(const Port& port, const std::string& why) {
  throw Error(Error::Kind::kInput, "input '" + port.name + "'" + why);
}

// Constants also count as planned.
bool is_planned(const er::Result<er::TensorInfo>& tensor) { return !tensor.ok() || tensor->is_memory_planned(); }

std::vector<std::int64_t> largest(const Port& port) {
  std::vector<std::int64_t> shape;
  shape.reserve(port.shape.size());
  for (const Dim& dim : port.shape) shape.push_back(dim.max);
  return shape;
}

}  // namespace

LoadedMethod::LoadedMethod(const LoadedProgram& program, const MethodDescription& described, std::string path,
                           Owner owner, er::EventTracer* profiler, SharedState* shared)
    : described_(described), path_(std::move(path)) {
  forget_error();
  const auto check = [&](er::Error error) {
    if (error != er::Error::Ok) fail_program(path_ + ": could not be loaded: " + error_text(error) + error_since());
  };
  const auto meta = program.program().method_meta(described_.name.c_str());
  check(meta.error());
  const auto tensors = [](const std::vector<Port>& ports, auto info) {
    std::vector<bool> planned;
    planned.reserve(ports.size());
    for (std::size_t i = 0; i < ports.size(); ++i) {
      planned.push_back(ports[i].kind == Kind::kTensor && is_planned(info(i)));
    }
    return planned;
  };
  planned_inputs_ = tensors(described_.inputs, [&](std::size_t i) { return meta->input_tensor_meta(i); });
  planned_outputs_ = tensors(described_.outputs, [&](std::size_t i) { return meta->output_tensor_meta(i); });
  arenas_ = std::make_unique<Arenas>(*meta, path_, shared);
  if (DeviceServices* services = device_services()) queue_ = services->make_queue();
  // The queue is also entered while delegates initialize, so that their work is complete on return.
  Entered entered(queue_.get(), {});
  er::BackendOptions<2> owned;
  check(owned.set_option("modelbuild_program", owner.program));
  check(owned.set_option("modelbuild_module", owner.module));
  er::LoadBackendOptionsMap options;
  for (const DelegateInfo& each : described_.delegates) check(options.set_options(each.backend.c_str(), owned.view()));
  memory_.emplace(&structures_, arenas_->allocator(), &temporary_);
  auto method = program.program().load_method(described_.name.c_str(), &*memory_, profiler, program.data(), &options);
  check(method.error());
  method_.emplace(std::move(*method));
  entered.leave();
}

void LoadedMethod::set_inputs(std::span<const Tensor> given) {
  rearranged_.clear();
  auto next = given.begin();
  for (std::size_t i = 0; i < described_.inputs.size(); ++i) {
    const Port& port = described_.inputs[i];
    if (port.kind == Kind::kTensor) {
      set_input(i, port, *next++);
    } else if (const er::EValue value = constant_of(port);
               !value.isNone() && method_->set_input(value, i) != er::Error::Ok) {
      fail_program(path_ + error_since());
    }
  }
}

void LoadedMethod::set_input(std::size_t index, const Port& port, const Tensor& given) {
  if (given.device.cuda && planned_inputs_[index]) {
    refuse(port, " lies on " + to_string(given.device) +
                     ", but the program plans memory of its own for it; lower it with alloc_graph_input=False");
  }
  if (given.device.cuda && !row_major(port.dim_order)) {
    refuse(port, " lies on " + to_string(given.device) +
                     " in row-major order, and the program expects another order of dimensions");
  }
  void* data = given.data;
  if (!given.device.cuda && !row_major(port.dim_order)) {
    std::vector<char>& copy = rearranged_.emplace_back(given.nbytes());
    to_program_order(given.data, copy.data(), given.shape, port.dim_order, dtype_size(port.dtype));
    data = copy.data();
  }
  if (!given.device.cuda && port.device.cuda && given.nbytes() != 0) data = stage(index, port, data, given.nbytes());
  // The method keeps the address of the elements, not the tensor.
  WrappedTensor tensor(data, port, given.shape);
  const er::Error error = method_->set_input(tensor.value(), index);
  if (error != er::Error::Ok) refuse(port, std::string(": ") + error_text(error) + error_since());
}

// Copies on the run's stream: on a caller's stream, the previous run may still read the buffer.
void* LoadedMethod::stage(std::size_t index, const Port& port, const void* data, std::size_t bytes) {
  auto known = staged_inputs_.find(index);
  if (known != staged_inputs_.end() && known->second.size < bytes) {
    staged_inputs_.erase(known);
    known = staged_inputs_.end();
  }
  if (known == staged_inputs_.end()) {
    known = staged_inputs_.emplace(index, Staged{DeviceBuffer(port.device.index, bytes), bytes}).first;
  }
  queue_->write(port.device.index, known->second.buffer.data(), data, bytes);
  return known->second.buffer.data();
}

void LoadedMethod::set_outputs(std::span<const Tensor> given) {
  for (std::size_t i = 0; i < described_.outputs.size(); ++i) {
    const Port& port = described_.outputs[i];
    const bool wanted = i < given.size() && given[i].data != nullptr;
    if (port.kind != Kind::kTensor || (!wanted && planned_outputs_[i])) continue;
    void* data = wanted ? given[i].data : own_output(i, port);
    const std::size_t bytes = Tensor{nullptr, port.dtype, wanted ? given[i].shape : largest(port), {}}.nbytes();
    const er::Error error = method_->set_output_data_ptr(data, bytes, i);
    // An output that is an input or a constant has memory already.
    if (wanted && error != er::Error::Ok) {
      throw Error(Error::Kind::kInput, "output '" + port.name + "' cannot be written to memory of the caller's: " +
                                           error_text(error) + error_since());
    }
  }
}

void* LoadedMethod::own_output(std::size_t index, const Port& port) {
  const std::size_t bytes = std::max<std::size_t>(Tensor{nullptr, port.dtype, largest(port), {}}.nbytes(), 1);
  if (!port.device.cuda) {
    return own_outputs_.try_emplace(index, bytes, path_ + ": output '" + port.name + "'").first->second.data();
  }
  const auto known = own_device_outputs_.find(index);
  if (known != own_device_outputs_.end()) return known->second.data();
  return own_device_outputs_.emplace(index, DeviceBuffer(port.device.index, bytes)).first->second.data();
}

void LoadedMethod::execute() {
  if (const er::Error error = method_->execute(); error != er::Error::Ok) {
    fail_program(path_ + ": method '" + described_.name + "' failed: " + error_text(error) + error_since());
  }
}

std::vector<Value> LoadedMethod::outputs() {
  const std::size_t count = method_->outputs_size();
  if (count != described_.outputs.size()) {
    fail_program(path_ + ": the run returned " + std::to_string(count) + " outputs; expected " +
                 std::to_string(described_.outputs.size()));
  }
  std::vector<Value> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(value_of(described_.outputs[i], method_->get_output(i), &rearranged_));
  }
  return values;
}

Entered::Entered(MethodQueue* queue, std::optional<void*> stream) : queue_(queue) {
  if (queue_ != nullptr) queue_->enter(stream);
}

Entered::~Entered() {
  try {
    leave();
  } catch (const Error& error) {  // only while another, more informative error is thrown
    ET_LOG(Debug, "%s", error.what());
  }
}

Transfers Entered::leave() {
  MethodQueue* queue = std::exchange(queue_, nullptr);
  return queue == nullptr ? Transfers{} : queue->leave();
}

}  // namespace modelbuild
