#include "engine.hpp"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "flavour_search.hpp"
#include "queue.hpp"
#include "requirements.hpp"

namespace modelbuild::tensorrt {
namespace {

// Returns a name for messages: the engine's own, or the method's with a number.
std::string part_name(const char* own, const std::string& method) {
  static std::atomic<int> loaded{0};
  const int number = loaded++;
  if (own != nullptr && *own != '\0') return "TensorRT engine '" + std::string(own) + "'";
  return "TensorRT engine " + std::to_string(number) + " of method " + method;
}

}  // namespace

Error Engine::load(const Blob& blob, const std::string& method, std::unique_ptr<Engine>* result) {
  if (const std::string missing = cuda::missing_device(blob.device); !missing.empty()) {
    ET_LOG(Error, "a TensorRT engine of method %s was built for cuda:%d: %s", method.c_str(), blob.device,
           missing.c_str());
    return Error::NotFound;
  }
  const auto capabilities = blob.declared ? blob.declared->capabilities : std::vector<std::string>{};
  if (const std::vector<std::string> problems = unmet(blob, capabilities); !problems.empty()) {
    for (const std::string& problem : problems) {
      ET_LOG(Error, "a TensorRT engine of method %s cannot be loaded: %s", method.c_str(), problem.c_str());
    }
    return Error::DelegateInvalidCompatibility;
  }
  std::unique_ptr<Engine> engine(new Engine());
  engine->device_ = blob.device;
  const cuda::DeviceGuard guard(blob.device);
  MB_CUDA("TensorRT engine", guard.error());
  Opened opened = open_engine(blob.engine, blob.declared && blob.declared->host_code);
  if (opened.engine == nullptr) {
    ET_LOG(Error, "a TensorRT engine of %zu bytes of method %s cannot be loaded: %s", blob.engine.size(),
           method.c_str(), opened.problem.c_str());
    for (const std::string& reason : opened.reasons) ET_LOG(Error, "%s", reason.c_str());
    return Error::DelegateInvalidCompatibility;
  }
  engine->flavour_ = opened.flavour;
  engine->engine_ = opened.engine;
  engine->messages_ = std::move(opened.messages);
  engine->name_ = part_name(engine->flavour_->engine_name(engine->engine_), method);
  const Error error = read_bindings(*engine->flavour_, engine->engine_, blob, engine->name_, &engine->bindings_);
  if (error != Error::Ok) return error;
  if (blob.declared) {
    const std::string problem = difference(*blob.declared, *engine->flavour_, engine->engine_);
    if (!problem.empty()) {
      ET_LOG(Error, "%s: %s", engine->name_.c_str(), problem.c_str());
      return Error::DelegateInvalidCompatibility;
    }
  }
  engine->context_ = engine->flavour_->context(engine->engine_);
  if (engine->context_ == nullptr) {
    return engine->failed("no execution context can be made on cuda:" + std::to_string(engine->device_),
                          Error::MemoryAllocationFailed);
  }
  MB_CUDA("TensorRT engine", cudaEventCreateWithFlags(&engine->done_, cudaEventDisableTiming));
  engine->io_ =
      std::make_unique<cuda::DeviceIo>(engine->name_, engine->device_, blob.inputs.size() + blob.outputs.size());
  engine->input_addresses_.resize(blob.inputs.size());
  engine->messages_->flush(engine->name_);
  *result = std::move(engine);
  return Error::Ok;
}

Engine::~Engine() {
  const cuda::DeviceGuard guard(device_);
  if (done_ != nullptr) {
    if (in_flight_) cudaEventSynchronize(done_);
    cudaEventDestroy(done_);
  }
  if (context_ != nullptr) flavour_->context_free(context_);
  if (engine_ != nullptr) flavour_->engine_free(engine_);
}

Error Engine::failed(const std::string& what, Error error) {
  const std::string reason = messages_->take_error();
  ET_LOG(Error, "%s: %s%s%s", name_.c_str(), what.c_str(), reason.empty() ? "" : ": ", reason.c_str());
  return error;
}

Error Engine::run(Span<EValue*> arguments) {
  const std::size_t expected = bindings_.inputs.size() + bindings_.outputs.size();
  if (arguments.size() != expected) {
    ET_LOG(Error, "%s: %zu arguments given, %zu expected", name_.c_str(), arguments.size(), expected);
    return Error::InvalidArgument;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const cuda::DeviceGuard guard(device_);
  MB_CUDA(name_.c_str(), guard.error());
  cudaStream_t stream = nullptr;
  if (const Error error = cuda::current_stream(device_, &stream); error != Error::Ok) return error;
  // All calls share one context, so a call on another stream starts after the last one's work.
  if (stream != last_stream_ && !cuda::recording()) {
    if (const Error error = wait_for_last(); error != Error::Ok) return error;
  }
  const Error error = run_on(stream, arguments);
  messages_->flush(name_);
  return error;
}

Error Engine::run_on(cudaStream_t stream, Span<EValue*> arguments) {
  io_->begin(stream);
  reflects_.clear();
  Error error = bind_inputs(arguments, stream);
  if (error == Error::Ok) error = bind_outputs(arguments);
  if (error == Error::Ok) error = enqueue(stream);
  if (error != Error::Ok) {
    io_->abandon();  // inputs may still be in transfer
    return error;
  }
  return io_->finish();
}

// A context's shapes and profile must not change while it works, so the host waits for it.
Error Engine::wait_for_last() {
  if (!in_flight_) return Error::Ok;
  MB_CUDA(name_.c_str(), cudaEventSynchronize(done_));
  in_flight_ = false;
  return Error::Ok;
}

Error Engine::bind_inputs(Span<EValue*> arguments, cudaStream_t stream) {
  std::vector<Tensor> tensors(bindings_.inputs.size(), Tensor(nullptr));
  std::vector<mb_trt_dims> shapes(bindings_.inputs.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Error error = tensor_of(*arguments[i], bindings_.inputs[i], name_, &tensors[i]);
    if (error != Error::Ok) return error;
    shapes[i] = shape_of(tensors[i]);
  }
  std::size_t profile = profile_;
  if (const Error error = choose_profile(bindings_.inputs, shapes, name_, &profile); error != Error::Ok) return error;
  if (const Error error = set_profile(profile, stream); error != Error::Ok) return error;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (const Error error = set_shape(&bindings_.inputs[i], shapes[i]); error != Error::Ok) return error;
    if (const Error error = bind_input(i, tensors[i]); error != Error::Ok) return error;
  }
  if (flavour_->infer_shapes(context_) == 0)
    return failed("the shapes of its outputs are unknown", Error::InvalidState);
  return Error::Ok;
}

Error Engine::set_profile(std::size_t profile, cudaStream_t stream) {
  if (profile == profile_) return Error::Ok;
  if (cuda::recording()) return failed("its optimization profile changed since the last run", Error::InvalidState);
  if (const Error error = wait_for_last(); error != Error::Ok) return error;
  if (flavour_->set_profile(context_, static_cast<std::int32_t>(profile), stream) == 0) {
    return failed("the engine refuses optimization profile " + std::to_string(profile), Error::InvalidState);
  }
  profile_ = profile;
  for (Binding& binding : bindings_.inputs) binding.given.rank = -1;
  return Error::Ok;
}

Error Engine::set_shape(Binding* binding, const mb_trt_dims& shape) {
  if (equal(shape, binding->given)) return Error::Ok;
  if (cuda::recording()) {
    return failed("the shape of '" + binding->name + "' changed since the last run", Error::InvalidState);
  }
  if (const Error error = wait_for_last(); error != Error::Ok) return error;
  if (flavour_->set_shape(context_, binding->name.c_str(), &shape) == 0) {
    return failed("the engine refuses shape " + text_of(shape) + " for '" + binding->name + "'",
                  Error::InvalidArgument);
  }
  binding->given = shape;
  return Error::Ok;
}

Error Engine::bind_input(std::size_t index, const Tensor& tensor) {
  const char* name = bindings_.inputs[index].name.c_str();
  void*& address = input_addresses_[index];
  const Error error = io_->input(index, name, tensor.const_data_ptr(), tensor.nbytes(), &address);
  if (error != Error::Ok) return error;
  if (flavour_->set_address(context_, name, address) == 0) {
    return failed("the engine refuses the memory of '" + std::string(name) + "'", Error::InvalidState);
  }
  return Error::Ok;
}

Error Engine::bind_outputs(Span<EValue*> arguments) {
  for (std::size_t i = 0; i < bindings_.outputs.size(); ++i) {
    const Error error = bind_output(i, *arguments[bindings_.inputs.size() + i]);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

Error Engine::bind_output(std::size_t index, const EValue& argument) {
  const Binding& binding = bindings_.outputs[index];
  Tensor tensor(nullptr);
  if (const Error error = tensor_of(argument, binding, name_, &tensor); error != Error::Ok) return error;
  const mb_trt_dims shape = flavour_->shape(context_, binding.name.c_str());
  std::vector<executorch::aten::SizesType> sizes;
  sizes.reserve(MB_TRT_MAX_DIMS);
  for (int k = 0; k < shape.rank; ++k) sizes.push_back(static_cast<executorch::aten::SizesType>(shape.sizes[k]));
  const bool known = shape.rank >= 0 && std::all_of(sizes.begin(), sizes.end(), [](auto size) { return size >= 0; });
  // TensorRT returns scalars as one element of rank 1.
  const bool scalar = tensor.dim() == 0 && shape.rank == 1 && shape.sizes[0] == 1;
  if (!known || (!scalar && executorch::runtime::resize_tensor(tensor, {sizes.data(), sizes.size()}) != Error::Ok)) {
    return failed(
        "output '" + binding.name + "' has shape " + text_of(shape) + ", which exceeds the program's memory for it",
        Error::InvalidState);
  }
  void* address = nullptr;
  const std::size_t slot = bindings_.inputs.size() + index;
  const Error error = io_->output(slot, binding.name.c_str(), tensor.mutable_data_ptr(), tensor.nbytes(), &address);
  if (error != Error::Ok) return error;
  if (binding.alias >= 0) {
    void* shared = input_addresses_[static_cast<std::size_t>(binding.alias)];
    if (shared != address && tensor.nbytes() != 0) reflects_.push_back({address, shared, tensor.nbytes()});
    address = shared;
  }
  if (flavour_->set_address(context_, binding.name.c_str(), address) == 0) {
    return failed("the engine refuses the memory of '" + binding.name + "'", Error::InvalidState);
  }
  return Error::Ok;
}

Error Engine::enqueue(cudaStream_t stream) {
  if (flavour_->enqueue(context_, stream) == 0) {
    return failed("cannot be enqueued on cuda:" + std::to_string(device_), Error::InvalidState);
  }
  for (const Reflect& each : reflects_) {
    MB_CUDA(name_.c_str(), cudaMemcpyAsync(each.to, each.from, each.bytes, cudaMemcpyDeviceToDevice, stream));
  }
  if (cuda::recording()) return Error::Ok;
  MB_CUDA(name_.c_str(), cudaEventRecord(done_, stream));
  last_stream_ = stream;
  in_flight_ = true;
  return Error::Ok;
}

}  // namespace modelbuild::tensorrt
