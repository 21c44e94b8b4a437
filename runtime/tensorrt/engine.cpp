#include "engine.hpp"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <atomic>

#include "flavours.hpp"
#include "modelbuild/runtime.hpp"
#include "queue.hpp"

namespace modelbuild::tensorrt {
namespace {

using executorch::runtime::etensor::Tensor;

void log(mb_trt_severity severity, const char* message) {
  if (severity == MB_TRT_ERROR) {
    ET_LOG(Error, "TensorRT: %s", message);
  } else if (severity == MB_TRT_WARNING) {
    ET_LOG(Info, "TensorRT warning: %s", message);
  }
}

std::string shape_text(const mb_trt_dims& dims) {
  std::string text;
  for (int i = 0; i < dims.rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims.sizes[i]);
  return "[" + text + "]";
}

bool within(const mb_trt_dims& dims, const mb_trt_dims& least, const mb_trt_dims& most) {
  for (int i = 0; i < dims.rank; ++i) {
    if (dims.sizes[i] < least.sizes[i] || dims.sizes[i] > most.sizes[i]) return false;
  }
  return true;
}

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
  if (flavours().empty()) {
    ET_LOG(Error, "there is no flavour of TensorRT beside the TensorRT delegate (libmodelbuild_tensorrt_*.so)");
    return Error::NotSupported;
  }
  std::unique_ptr<Engine> engine(new Engine());
  engine->device_ = blob.device;
  const cuda::DeviceGuard guard(blob.device);
  MB_CUDA("TensorRT engine", guard.error());
  std::string tried;
  for (const mb_trt_flavour* flavour : flavours()) {
    engine->flavour_ = flavour;
    engine->engine_ = flavour->deserialize(blob.engine.data(), blob.engine.size(), log);
    if (engine->engine_ != nullptr) break;
    tried += (tried.empty() ? "" : ", ") + std::string(flavour->name());
  }
  if (engine->engine_ == nullptr) {
    ET_LOG(Error, "an engine of %zu bytes of method %s can be read by none of: %s", blob.engine.size(), method.c_str(),
           tried.c_str());
    return Error::DelegateInvalidCompatibility;
  }
  engine->name_ = part_name(engine->flavour_->engine_name(engine->engine_), method);
  if (const Error error = engine->bind_names(blob); error != Error::Ok) return error;
  engine->context_ = engine->flavour_->context(engine->engine_);
  if (engine->context_ == nullptr) {
    ET_LOG(Error, "%s: no execution context can be made on cuda:%d", engine->name_.c_str(), engine->device_);
    return Error::MemoryAllocationFailed;
  }
  MB_CUDA("TensorRT engine", cudaEventCreateWithFlags(&engine->done_, cudaEventDisableTiming));
  engine->io_ =
      std::make_unique<cuda::DeviceIo>(engine->name_, engine->device_, blob.inputs.size() + blob.outputs.size());
  engine->input_addresses_.resize(blob.inputs.size());
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

Error Engine::bind_names(const Blob& blob) {
  const auto binding = [&](const std::string& name, bool is_input, std::vector<Binding>* bindings) {
    if (flavour_->has_binding(engine_, name.c_str(), is_input ? 1 : 0) == 0) {
      ET_LOG(Error, "%s: the blob names an %s '%s', which the engine lacks", name_.c_str(),
             is_input ? "input" : "output", name.c_str());
      return Error::DelegateInvalidCompatibility;
    }
    Binding found{name, flavour_->dtype(engine_, name.c_str())};
    if (is_input) {
      found.least = flavour_->profile(engine_, name.c_str(), MB_TRT_MIN);
      found.most = flavour_->profile(engine_, name.c_str(), MB_TRT_MAX);
    }
    bindings->push_back(std::move(found));
    return Error::Ok;
  };
  for (const std::string& name : blob.inputs) {
    if (const Error error = binding(name, true, &inputs_); error != Error::Ok) return error;
  }
  for (const std::string& name : blob.outputs) {
    if (const Error error = binding(name, false, &outputs_); error != Error::Ok) return error;
  }
  for (const Alias& alias : blob.aliases) outputs_[alias.output].alias = static_cast<int>(alias.input);
  return Error::Ok;
}

Error Engine::tensor_of(Span<EValue*> arguments, std::size_t at, const Binding& binding, Tensor* tensor) const {
  if (!arguments[at]->isTensor()) {
    ET_LOG(Error, "%s: '%s' is not a tensor", name_.c_str(), binding.name.c_str());
    return Error::InvalidArgument;
  }
  *tensor = arguments[at]->toTensor();
  const auto dtype = static_cast<std::int32_t>(tensor->scalar_type());
  if (dtype != binding.dtype) {
    ET_LOG(Error, "%s: '%s' has element type %d, but the engine's has %d", name_.c_str(), binding.name.c_str(), dtype,
           binding.dtype);
    return Error::InvalidArgument;
  }
  const auto order = tensor->dim_order();
  if (!executorch::runtime::is_contiguous_dim_order(order.data(), order.size())) {
    ET_LOG(Error, "%s: '%s' does not lie in row-major order", name_.c_str(), binding.name.c_str());
    return Error::InvalidArgument;
  }
  return Error::Ok;
}

// Sets an input's shape. A context's shapes must not change while it works, so the host waits for it if one changes.
Error Engine::set_shape(Binding* binding, const Tensor& tensor) {
  mb_trt_dims dims{};
  dims.rank = static_cast<std::int32_t>(std::min<ssize_t>(tensor.dim(), MB_TRT_MAX_DIMS));
  for (int i = 0; i < dims.rank; ++i) dims.sizes[i] = tensor.size(i);
  if (tensor.dim() != binding->least.rank || !within(dims, binding->least, binding->most)) {
    ET_LOG(Error, "%s: '%s' has shape %s, outside of the engine's profile %s to %s", name_.c_str(),
           binding->name.c_str(), shape_text(dims).c_str(), shape_text(binding->least).c_str(),
           shape_text(binding->most).c_str());
    return Error::InvalidArgument;
  }
  if (dims.rank == binding->given.rank && within(dims, binding->given, binding->given)) return Error::Ok;
  if (cuda::recording()) {
    ET_LOG(Error, "%s: the shape of '%s' changed since the last run", name_.c_str(), binding->name.c_str());
    return Error::InvalidState;
  }
  if (in_flight_) MB_CUDA(name_.c_str(), cudaEventSynchronize(done_));
  in_flight_ = false;
  if (flavour_->set_shape(context_, binding->name.c_str(), &dims) == 0) {
    ET_LOG(Error, "%s: the engine refuses shape %s for '%s'", name_.c_str(), shape_text(dims).c_str(),
           binding->name.c_str());
    return Error::InvalidArgument;
  }
  binding->given = dims;
  return Error::Ok;
}

Error Engine::run(Span<EValue*> arguments) {
  if (arguments.size() != inputs_.size() + outputs_.size()) {
    ET_LOG(Error, "%s: %zu arguments given, %zu expected", name_.c_str(), arguments.size(),
           inputs_.size() + outputs_.size());
    return Error::InvalidArgument;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const cuda::DeviceGuard guard(device_);
  MB_CUDA(name_.c_str(), guard.error());
  cudaStream_t stream = nullptr;
  if (const Error error = cuda::current_stream(device_, &stream); error != Error::Ok) return error;
  if (const Error error = wait_for_last(stream); error != Error::Ok) return error;
  io_->begin(stream);
  reflects_.clear();
  Error error = bind(arguments);
  if (error == Error::Ok) error = enqueue(stream);
  if (error != Error::Ok) {
    io_->abandon();  // inputs may still be in transfer
    return error;
  }
  return io_->finish();
}

// All calls share one context, so a call on another stream starts after the last one's work. A context's shapes must
// not change while it works, so the host waits for it; calls on the same stream need no wait.
Error Engine::wait_for_last(cudaStream_t stream) {
  if (!in_flight_ || stream == last_stream_ || cuda::recording()) return Error::Ok;
  MB_CUDA(name_.c_str(), cudaEventSynchronize(done_));
  in_flight_ = false;
  return Error::Ok;
}

Error Engine::bind(Span<EValue*> arguments) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Binding& binding = inputs_[i];
    Tensor tensor(nullptr);
    if (const Error error = tensor_of(arguments, i, binding, &tensor); error != Error::Ok) return error;
    if (const Error error = set_shape(&binding, tensor); error != Error::Ok) return error;
    const Error error =
        io_->input(i, binding.name.c_str(), tensor.const_data_ptr(), tensor.nbytes(), &input_addresses_[i]);
    if (error != Error::Ok) return error;
    if (flavour_->set_address(context_, binding.name.c_str(), input_addresses_[i]) == 0) return Error::InvalidState;
  }
  if (flavour_->infer_shapes(context_) == 0) {
    ET_LOG(Error, "%s: the shapes of its outputs are unknown", name_.c_str());
    return Error::InvalidState;
  }
  return bind_outputs(arguments);
}

Error Engine::bind_outputs(Span<EValue*> arguments) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Binding& binding = outputs_[i];
    const std::size_t at = inputs_.size() + i;
    Tensor tensor(nullptr);
    if (const Error error = tensor_of(arguments, at, binding, &tensor); error != Error::Ok) return error;
    const mb_trt_dims dims = flavour_->shape(context_, binding.name.c_str());
    std::vector<executorch::aten::SizesType> sizes;
    sizes.reserve(MB_TRT_MAX_DIMS);
    for (int k = 0; k < dims.rank; ++k) sizes.push_back(static_cast<executorch::aten::SizesType>(dims.sizes[k]));
    const bool known = dims.rank >= 0 && std::all_of(sizes.begin(), sizes.end(), [](auto size) { return size >= 0; });
    // TensorRT returns scalars as one element of rank 1.
    const bool scalar = tensor.dim() == 0 && dims.rank == 1 && dims.sizes[0] == 1;
    if (!known || (!scalar && executorch::runtime::resize_tensor(tensor, {sizes.data(), sizes.size()}) != Error::Ok)) {
      ET_LOG(Error, "%s: output '%s' has shape %s, which exceeds the program's memory for it", name_.c_str(),
             binding.name.c_str(), shape_text(dims).c_str());
      return Error::InvalidState;
    }
    void* address = nullptr;
    const Error error = io_->output(at, binding.name.c_str(), tensor.mutable_data_ptr(), tensor.nbytes(), &address);
    if (error != Error::Ok) return error;
    if (binding.alias >= 0) {
      void* shared = input_addresses_[static_cast<std::size_t>(binding.alias)];
      if (shared != address && tensor.nbytes() != 0) reflects_.push_back({address, shared, tensor.nbytes()});
      address = shared;
    }
    if (flavour_->set_address(context_, binding.name.c_str(), address) == 0) return Error::InvalidState;
  }
  return Error::Ok;
}

Error Engine::enqueue(cudaStream_t stream) {
  if (flavour_->enqueue(context_, stream) == 0) {
    ET_LOG(Error, "%s: cannot be enqueued on cuda:%d", name_.c_str(), device_);
    return Error::InvalidState;
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
