#include "part.hpp"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <atomic>
#include <cstring>
#include <limits>

#include "queue.hpp"

namespace modelbuild::aoti {
namespace {

using executorch::runtime::etensor::Tensor;

std::vector<std::int64_t> strides_of(const Tensor& tensor) {
  const auto strides = tensor.strides();
  return {strides.begin(), strides.end()};
}

// Returns whether two layouts are equal, ignoring strides of dimensions of size 1.
bool same_layout(const std::int64_t* strides, const Tensor& tensor) {
  const auto own = tensor.strides();
  for (ssize_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && strides[i] != own[static_cast<std::size_t>(i)]) return false;
  }
  return true;
}

// Keeps freed memory in the GPU's pool. Compiled code allocates from the pool in each run and frees everything; by
// default the pool returns freed memory to the driver whenever the host waits, and the next run maps it again.
Error keep_memory(int device) {
  cudaMemPool_t pool = nullptr;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  MB_CUDA("memory pool", cudaDeviceGetDefaultMemPool(&pool, device));
  MB_CUDA("memory pool", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &most));
  return Error::Ok;
}

// Returns kept memory that is not in use to the driver.
void release_kept_memory(int device) {
  cudaMemPool_t pool = nullptr;
  if (cudaDeviceGetDefaultMemPool(&pool, device) == cudaSuccess) cudaMemPoolTrimTo(pool, 0);
}

}  // namespace

Error Part::load(const Keys& keys, const NamedDataMap& data, int device, const std::string& method, const Owner& owner,
                 std::unique_ptr<Part>* result) {
  static std::atomic<int> loaded{0};
  if (const std::string missing = cuda::missing_device(device); !missing.empty()) {
    ET_LOG(Error, "a CUDA part of method %s was built for cuda:%d: %s", method.c_str(), device, missing.c_str());
    return Error::NotFound;
  }
  std::unique_ptr<Part> part(new Part());
  part->name_ = "CUDA part " + std::to_string(loaded++) + " of method " + method;
  part->device_ = device;
  const cuda::DeviceGuard guard(device);
  MB_CUDA(part->name_.c_str(), guard.error());

  if (const Error error = keep_memory(device); error != Error::Ok) return error;
  auto bytes = get_data(data, keys.library);
  if (!bytes.ok()) {
    ET_LOG(Error, "%s: the program has no data '%s'", part->name_.c_str(), keys.library.c_str());
    return Error::InvalidProgram;
  }
  if (const Error error = Library::load(bytes->data(), bytes->size(), &part->library_); error != Error::Ok)
    return error;
  bytes->Free();
  if (const Error error = part->create(keys, data, owner); error != Error::Ok) return error;
  if (part->library_->input_count(part->container_, &part->inputs_) != 0 ||
      part->library_->output_count(part->container_, &part->outputs_) != 0) {
    return Error::DelegateInvalidCompatibility;
  }
  part->io_ = std::make_unique<cuda::DeviceIo>(part->name_, device, part->inputs_ + part->outputs_);
  *result = std::move(part);
  return Error::Ok;
}

// Makes the container, with the constants that it has in common with other parts.
Error Part::create(const Keys& keys, const NamedDataMap& data, const Owner& owner) {
  const Error error = Constants::load(keys.constants, data, device_, owner, name_, &constants_);
  if (error != Error::Ok) return error;
  const std::string where = "cuda:" + std::to_string(device_);
  const std::vector<NamedTensor> tensors = constants_->tensors();
  if (library_->create(&container_, 1, where.c_str(), nullptr, tensors.data(), tensors.size()) != 0) {
    ET_LOG(Error, "%s: the compiled library does not start on %s", name_.c_str(), where.c_str());
    return Error::DelegateInvalidCompatibility;
  }
  return Error::Ok;
}

Part::~Part() {
  const cuda::DeviceGuard guard(device_);
  if (container_ == nullptr) return;
  cudaDeviceSynchronize();
  library_->destroy(container_);
  release_kept_memory(device_);
}

Error Part::run(Span<EValue*> arguments) {
  if (arguments.size() != inputs_ + outputs_) {
    ET_LOG(Error, "%s: %zu arguments given, %zu expected", name_.c_str(), arguments.size(), inputs_ + outputs_);
    return Error::InvalidArgument;
  }
  if (library_->unrecordable != nullptr && cuda::recording()) {
    ET_LOG(Error, "%s: %s: a CUDA graph can't contain that", name_.c_str(), library_->unrecordable);
    return Error::NotSupported;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const cuda::DeviceGuard guard(device_);
  MB_CUDA(name_.c_str(), guard.error());
  cudaStream_t stream = nullptr;
  if (const Error error = cuda::current_stream(device_, &stream); error != Error::Ok) return error;
  const Error set = executorch::backends::cuda::setCurrentCUDAStream(stream, static_cast<std::int8_t>(device_));
  if (set != Error::Ok) return set;

  io_->begin(stream);
  std::vector<AotiTensor*> inputs;
  Error error = wrap_inputs(arguments, &inputs);
  if (error != Error::Ok) {
    for (AotiTensor* tensor : inputs) DeleteTensor()(tensor);
    io_->abandon();
    return error;
  }
  std::vector<AotiTensor*> raw(outputs_, nullptr);
  const AotiError ran =
      library_->run(container_, inputs.data(), inputs_, raw.data(), outputs_, static_cast<void*>(stream), nullptr);
  const std::vector<OwnedTensor> outputs(raw.begin(), raw.end());
  if (ran != 0) {
    ET_LOG(Error, "%s: its compiled code failed", name_.c_str());
    error = Error::Internal;
  }
  for (std::size_t i = 0; error == Error::Ok && i < outputs_; ++i) {
    error = take_output(outputs[i].get(), inputs_ + i, arguments[inputs_ + i], stream);
  }
  if (error != Error::Ok) {
    io_->abandon();
    return error;
  }
  return io_->finish();
}

Error Part::wrap_inputs(Span<EValue*> arguments, std::vector<AotiTensor*>* tensors) {
  for (std::size_t i = 0; i < inputs_; ++i) {
    const std::string name = "input " + std::to_string(i);
    if (!arguments[i]->isTensor()) {
      ET_LOG(Error, "%s: %s is not a tensor", name_.c_str(), name.c_str());
      return Error::InvalidArgument;
    }
    const Tensor tensor = arguments[i]->toTensor();
    void* address = nullptr;
    const Error error = io_->input(i, name.c_str(), tensor.const_data_ptr(), tensor.nbytes(), &address);
    if (error != Error::Ok) return error;
    const std::vector<std::int64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
    const std::vector<std::int64_t> strides = strides_of(tensor);
    AotiTensor* wrapped = nullptr;
    if (aoti_torch_create_tensor_from_blob_v2(address, static_cast<std::int64_t>(sizes.size()), sizes.data(),
                                              strides.data(), 0, static_cast<std::int32_t>(tensor.scalar_type()),
                                              aoti_torch_device_type_cuda(), device_, &wrapped, 0, nullptr, 0) != 0) {
      ET_LOG(Error, "%s: %s has an element type that the CUDA delegate lacks", name_.c_str(), name.c_str());
      return Error::InvalidType;
    }
    tensors->push_back(wrapped);
  }
  return Error::Ok;
}

// Copies an output that the compiled code allocated to the program's memory, on the same stream.
Error Part::take_output(AotiTensor* from, std::size_t slot, EValue* argument, cudaStream_t stream) {
  const std::string name = "output " + std::to_string(slot - inputs_);
  std::int64_t rank = 0;
  std::int64_t* sizes = nullptr;
  std::int64_t* strides = nullptr;
  std::int32_t dtype = 0;
  void* source = nullptr;
  if (from == nullptr || !argument->isTensor() || aoti_torch_get_dim(from, &rank) != 0 ||
      aoti_torch_get_sizes(from, &sizes) != 0 || aoti_torch_get_strides(from, &strides) != 0 ||
      aoti_torch_get_dtype(from, &dtype) != 0 || aoti_torch_get_data_ptr(from, &source) != 0) {
    ET_LOG(Error, "%s: %s is not a tensor", name_.c_str(), name.c_str());
    return Error::InvalidArgument;
  }
  Tensor to = argument->toTensor();
  const std::vector<executorch::aten::SizesType> shape(sizes, sizes + rank);
  if (dtype != static_cast<std::int32_t>(to.scalar_type()) ||
      executorch::runtime::resize_tensor(to, {shape.data(), shape.size()}) != Error::Ok || !same_layout(strides, to)) {
    ET_LOG(Error, "%s: %s has another size or layout than the program's memory for it", name_.c_str(), name.c_str());
    return Error::InvalidState;
  }
  if (to.nbytes() == 0) return Error::Ok;
  void* target = nullptr;
  if (const Error error = io_->output(slot, name.c_str(), to.mutable_data_ptr(), to.nbytes(), &target);
      error != Error::Ok) {
    return error;
  }
  MB_CUDA(name_.c_str(), cudaMemcpyAsync(target, source, to.nbytes(), cudaMemcpyDeviceToDevice, stream));
  return Error::Ok;
}

}  // namespace modelbuild::aoti
