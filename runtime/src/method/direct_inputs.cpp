// Deprecated names of ExecuTorch used, checked on 1.5.1: Module::method and Method::get_inputs. Method::set_input,
// which replaces them, copies to planned memory.
#include "method/direct_inputs.hpp"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace modelbuild {

namespace er = executorch::runtime;

DirectInputs::DirectInputs(executorch::extension::Module* module, const MethodDescription& described)
    : inputs_(described.inputs.size()) {
  const auto method = module->method(described.name);
  std::vector<er::EValue> values(inputs_.size());
  if (!method.ok() || (*method)->get_inputs(values.data(), values.size()) != er::Error::Ok) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (described.inputs[i].direct && values[i].isTensor()) {
      inputs_[i].tensor = values[i].toTensor().unsafeGetTensorImpl();
    }
  }
}

bool DirectInputs::set(std::size_t index, void* data, std::span<const std::int64_t> shape) {
  const Input& input = inputs_[index];
  if (input.tensor == nullptr || !input.known) return false;
  const er::etensor::Tensor tensor(input.tensor);
  const std::vector<executorch::aten::SizesType> sizes(shape.begin(), shape.end());
  if (er::resize_tensor(tensor, {sizes.data(), sizes.size()}) != er::Error::Ok) return false;
  input.tensor->set_data(data);
  return true;
}

}  // namespace modelbuild
