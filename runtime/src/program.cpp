// A loaded program: inputs in, one run, outputs out.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <mutex>

#include "arenas.hpp"
#include "check_inputs.hpp"
#include "device_services.hpp"
#include "error_text.hpp"
#include "graphs.hpp"
#include "layout.hpp"
#include "log.hpp"
#include "plugins.hpp"

namespace modelbuild {
namespace {

namespace ee = executorch::extension;
namespace er = executorch::runtime;

[[noreturn]] void fail(const std::string& message) { throw Error(Error::Kind::kProgram, message); }

std::vector<executorch::aten::SizesType> sizes_of(const std::vector<std::int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

er::etensor::Device device_of(const Device& device) {
  using Type = er::etensor::DeviceType;
  return {device.cuda ? Type::CUDA : Type::CPU, static_cast<er::etensor::DeviceIndex>(device.index)};
}

ee::TensorPtr wrap(void* data, const Port& port, const std::vector<std::int64_t>& shape) {
  return ee::make_tensor_ptr(sizes_of(shape), data, {port.dim_order.begin(), port.dim_order.end()}, {},
                             static_cast<executorch::aten::ScalarType>(port.dtype), device_of(port.device));
}

er::EValue prim(const Constant& constant) {
  if (const auto* number = std::get_if<std::int64_t>(&constant)) return er::EValue(*number);
  if (const auto* flag = std::get_if<bool>(&constant)) return er::EValue(*flag);
  if (const auto* real = std::get_if<double>(&constant)) return er::EValue(*real);
  return {};
}

// A method and what it works with. The arenas come first: they outlive the module's methods, which point into them.
struct Loaded {
  std::unique_ptr<Arenas> arenas;
  std::unique_ptr<MethodQueue> queue;
  std::map<std::size_t, DeviceBuffer> staged_inputs;  // for host tensors where the program wants device memory
  std::map<std::size_t, std::size_t> staged_sizes;
  // For outputs that the program did not plan memory for and the caller gave none for.
  std::map<std::size_t, std::vector<char>> own_outputs;
  std::map<std::size_t, DeviceBuffer> own_device_outputs;

  void* own_output(std::size_t index, const Port& port);
};

std::vector<std::int64_t> largest(const Port& port) {
  std::vector<std::int64_t> shape;
  shape.reserve(port.shape.size());
  for (const Dim& dim : port.shape) shape.push_back(dim.max);
  return shape;
}

void* Loaded::own_output(std::size_t index, const Port& port) {
  const std::size_t bytes = std::max<std::size_t>(Tensor{nullptr, port.dtype, largest(port), {}}.nbytes(), 1);
  if (!port.device.cuda) return own_outputs.try_emplace(index, bytes).first->second.data();
  const auto known = own_device_outputs.find(index);
  if (known != own_device_outputs.end()) return known->second.data();
  return own_device_outputs.emplace(index, DeviceBuffer(port.device.index, bytes)).first->second.data();
}

// Leaves the queue whatever happens, so that the thread's next run does not find it entered.
class Entered {
 public:
  Entered(MethodQueue* queue, std::optional<void*> stream) : queue_(queue) {
    if (queue_ != nullptr) queue_->enter(stream);
  }
  ~Entered() {
    try {
      leave();
    } catch (const Error& error) {  // only on the way out of another error, which says more
      ET_LOG(Debug, "%s", error.what());
    }
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  Transfers leave() {
    MethodQueue* queue = std::exchange(queue_, nullptr);
    return queue == nullptr ? Transfers{} : queue->leave();
  }

 private:
  MethodQueue* queue_;
};

}  // namespace

struct Program::State {
  Description description;
  std::mutex mutex;
  std::map<std::string, Loaded> methods;
  std::unique_ptr<ee::Module> module;    // after `methods`: it goes first
  std::map<std::string, Graphs> graphs;  // and before it these, which point into its delegates' code
  std::vector<std::vector<char>> rearranged;
  Transfers transfers;
  GraphCounts graph_counts;

  Loaded& load(const std::string& name);
  void input(Loaded* loaded, std::size_t index, const Port& port, const Tensor& given, const er::MethodMeta& meta,
             Transfers* moved);
  Value output(const Port& port, const er::EValue& value);
  void set_outputs(Loaded* loaded, const MethodDescription& method, const er::MethodMeta& meta,
                   const std::vector<Tensor>& given);
  std::vector<Value> outputs(const MethodDescription& method, const std::vector<er::EValue>& results);
};

Loaded& Program::State::load(const std::string& name) {
  if (const auto found = methods.find(name); found != methods.end()) return found->second;
  forget_error();
  const auto check = [&](er::Error error) {
    if (error != er::Error::Ok) {
      fail(description.path + ": could not be loaded: " + error_text(error) + error_since());
    }
  };
  check(module->load());
  auto meta = module->method_meta(name);
  check(meta.error());
  Loaded loaded;
  loaded.arenas = std::make_unique<Arenas>(*meta, description.path);
  if (DeviceServices* services = device_services()) loaded.queue = services->make_queue();
  // A queue is entered while delegates initialize, too, so that what they enqueue is done when this returns.
  Entered entered(loaded.queue.get(), {});
  check(module->load_method(name, loaded.arenas->allocator()));
  entered.leave();
  return methods.emplace(name, std::move(loaded)).first->second;
}

void Program::State::input(Loaded* loaded, std::size_t index, const Port& port, const Tensor& given,
                           const er::MethodMeta& meta, Transfers* moved) {
  const auto info = meta.input_tensor_meta(index);
  const bool planned = info.ok() && info->is_memory_planned();
  if (given.device.cuda && planned) {
    throw Error(Error::Kind::kInput, "input '" + port.name + "' lies on " + to_string(given.device) +
                                         ", but the program plans memory of its own for it; lower it with"
                                         " alloc_graph_input=False");
  }
  if (given.device.cuda && !row_major(port.dim_order)) {
    throw Error(Error::Kind::kInput, "input '" + port.name + "' lies on " + to_string(given.device) +
                                         " in row-major order, and the program wants another order of dimensions");
  }
  void* data = given.data;
  if (!given.device.cuda && !row_major(port.dim_order)) {
    std::vector<char>& copy = rearranged.emplace_back(given.nbytes());
    to_program_order(given.data, copy.data(), given.shape, port.dim_order, dtype_size(port.dtype));
    data = copy.data();
  }
  if (!given.device.cuda && port.device.cuda && given.nbytes() != 0) {
    const std::size_t bytes = given.nbytes();
    if (loaded->staged_sizes[index] < bytes) {
      loaded->staged_inputs.erase(index);
      loaded->staged_inputs.emplace(index, DeviceBuffer(port.device.index, bytes));
      loaded->staged_sizes[index] = bytes;
    }
    DeviceBuffer& buffer = loaded->staged_inputs.at(index);
    buffer.write(data, bytes);
    data = buffer.data();
    moved->copied_in += bytes;
  }
  // The method keeps the address of the elements, not the tensor.
  const er::Error error = module->set_input(meta.name(), er::EValue(wrap(data, port, given.shape)), index);
  if (error != er::Error::Ok) {
    throw Error(Error::Kind::kInput, "input '" + port.name + "': " + error_text(error) + error_since());
  }
}

void Program::State::set_outputs(Loaded* loaded, const MethodDescription& method, const er::MethodMeta& meta,
                                 const std::vector<Tensor>& given) {
  for (std::size_t i = 0; i < std::max(given.size(), method.outputs.size()); ++i) {
    const bool wanted = i < given.size() && given[i].data != nullptr;
    if (i >= method.outputs.size() || method.outputs[i].kind != Kind::kTensor) {
      if (wanted) throw Error(Error::Kind::kInput, "output " + std::to_string(i) + " is no tensor of " + method.name);
      continue;
    }
    const Port& port = method.outputs[i];
    const auto info = meta.output_tensor_meta(i);
    if (!wanted && (!info.ok() || info->is_memory_planned())) continue;
    void* data = wanted ? given[i].data : loaded->own_output(i, port);
    const ee::TensorPtr tensor = wrap(data, port, wanted ? given[i].shape : largest(port));
    const er::Error error = module->set_output(method.name, er::EValue(tensor), i);
    // An output may be an input, or a constant: it has memory then.
    if (wanted && error != er::Error::Ok) {
      throw Error(Error::Kind::kInput, "output '" + port.name + "' cannot be written to memory of the caller's: " +
                                           error_text(error) + error_since());
    }
  }
}

Value Program::State::output(const Port& port, const er::EValue& value) {
  Value found;
  found.name = port.name;
  if (value.isInt()) {
    found.kind = Kind::kInt;
    found.scalar = value.toInt();
  } else if (value.isBool()) {
    found.kind = Kind::kBool;
    found.scalar = value.toBool();
  } else if (value.isDouble()) {
    found.kind = Kind::kFloat;
    found.scalar = value.toDouble();
  } else if (!value.isTensor()) {
    found.kind = value.isNone() ? Kind::kNone : Kind::kList;
  } else {
    const auto tensor = value.toTensor();
    found.tensor.dtype = static_cast<DType>(tensor.scalar_type());
    found.tensor.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
    found.tensor.data = tensor.mutable_data_ptr();
    DeviceServices* services = device_services();
    if (const auto gpu = services != nullptr ? services->device_of(found.tensor.data) : std::nullopt) {
      found.tensor.device = {true, *gpu};
    } else if (const std::span order(tensor.dim_order().data(), tensor.dim_order().size()); !row_major(order)) {
      std::vector<char>& copy = rearranged.emplace_back(found.tensor.nbytes());
      to_row_major(found.tensor.data, copy.data(), found.tensor.shape, order, dtype_size(found.tensor.dtype));
      found.tensor.data = copy.data();
    }
  }
  return found;
}

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::~Program() = default;
const Description& Program::describe() const { return state_->description; }
Transfers Program::transfers() const { return state_->transfers; }
GraphCounts Program::graph_counts() const { return state_->graph_counts; }

std::unique_ptr<Program> Program::load(const std::filesystem::path& path, const LoadOptions& options) {
  start_log();
  auto state = std::make_unique<State>();
  state->description = modelbuild::describe(path, options.data);
  load_plugins(state->description, options);
  std::vector<std::string> data;
  for (const auto& [file, size] : state->description.data) data.push_back(file);
  state->module = std::make_unique<ee::Module>(path.string(), data, ee::Module::LoadMode::Mmap);
  return std::unique_ptr<Program>(new Program(std::move(state)));
}

std::vector<Value> Program::State::outputs(const MethodDescription& method, const std::vector<er::EValue>& results) {
  if (results.size() != method.outputs.size()) {
    fail(description.path + ": " + std::to_string(results.size()) + " outputs came back, " +
         std::to_string(method.outputs.size()) + " were promised");
  }
  std::vector<Value> values;
  values.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) values.push_back(output(method.outputs[i], results[i]));
  return values;
}

std::vector<Value> Program::run(std::string_view method_name, std::span<const Tensor> inputs,
                                const RunOptions& options) {
  const std::string name(method_name);
  const MethodDescription& method = state_->description.method(name);
  check_inputs(method, inputs);
  std::optional<Graphs::Key> key;
  if (options.cuda_graph) key = Graphs::key(method, inputs, options.outputs);
  const std::lock_guard<std::mutex> lock(state_->mutex);
  Loaded& loaded = state_->load(name);
  forget_error();
  state_->rearranged.clear();
  Graphs& graphs = state_->graphs[name];
  const bool record = std::exchange(graphs.last, std::nullopt) == key && key;
  if (const Graphs::Graph* known = key ? graphs.find(*key) : nullptr) {
    Entered entered(loaded.queue.get(), options.stream);
    loaded.queue->replay(*known->recording);
    state_->transfers = entered.leave();
    ++state_->graph_counts.replayed;
    return known->outputs;
  }

  const auto meta = state_->module->method_meta(name);
  Transfers moved;
  std::size_t next = 0;
  for (std::size_t i = 0; i < method.inputs.size(); ++i) {
    const Port& port = method.inputs[i];
    if (port.kind == Kind::kTensor) {
      state_->input(&loaded, i, port, inputs[next++], *meta, &moved);
    } else if (const er::EValue value = prim(port.constant);
               !value.isNone() && state_->module->set_input(name, value, i) != er::Error::Ok) {
      fail(state_->description.path + error_since());
    }
  }
  state_->set_outputs(&loaded, method, *meta, options.outputs);

  Entered entered(loaded.queue.get(), options.stream);
  if (record) loaded.queue->begin_recording();
  const auto results = state_->module->execute(name);
  if (!results.ok()) {
    fail(state_->description.path + ": method '" + name + "' failed: " + error_text(results.error()) + error_since());
  }
  std::unique_ptr<Recording> recording;
  if (record) {
    recording = loaded.queue->end_recording();
    loaded.queue->replay(*recording);
    ++state_->graph_counts.recorded;
  }
  state_->transfers = entered.leave();
  state_->transfers.copied_in += moved.copied_in;
  std::vector<Value> values = state_->outputs(method, *results);
  if (record) graphs.add({*key, std::move(recording), values});
  graphs.last = std::move(key);
  return values;
}

}  // namespace modelbuild
