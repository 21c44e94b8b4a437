#include "method/values.hpp"

#include "devices/device_services.hpp"
#include "method/layout.hpp"

namespace modelbuild {
namespace {

namespace ee = executorch::extension;
namespace er = executorch::runtime;

er::etensor::Device device_of(const Device& device) {
  using Type = er::etensor::DeviceType;
  return {device.cuda ? Type::CUDA : Type::CPU, static_cast<er::etensor::DeviceIndex>(device.index)};
}

Tensor tensor_of(const executorch::aten::Tensor& made, std::vector<std::vector<char>>* rearranged) {
  Tensor found{made.mutable_data_ptr(), static_cast<DType>(made.scalar_type()), {}, {}};
  found.shape.assign(made.sizes().begin(), made.sizes().end());
  DeviceServices* services = device_services();
  if (const auto gpu = services != nullptr ? services->device_of(found.data) : std::nullopt) {
    found.device = {true, *gpu};
  } else if (const std::span order(made.dim_order().data(), made.dim_order().size()); !row_major(order)) {
    std::vector<char>& copy = rearranged->emplace_back(found.nbytes());
    to_row_major(found.data, copy.data(), found.shape, order, dtype_size(found.dtype));
    found.data = copy.data();
  }
  return found;
}

}  // namespace

ee::TensorPtr wrap(void* data, const Port& port, const std::vector<std::int64_t>& shape) {
  return ee::make_tensor_ptr({shape.begin(), shape.end()}, data, {port.dim_order.begin(), port.dim_order.end()}, {},
                             static_cast<executorch::aten::ScalarType>(port.dtype), device_of(port.device));
}

er::EValue constant_of(const Port& port) {
  if (const auto* number = std::get_if<std::int64_t>(&port.constant)) return er::EValue(*number);
  if (const auto* flag = std::get_if<bool>(&port.constant)) return er::EValue(*flag);
  if (const auto* real = std::get_if<double>(&port.constant)) return er::EValue(*real);
  return {};
}

Value value_of(const Port& port, const er::EValue& value, std::vector<std::vector<char>>* rearranged) {
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
  } else if (value.isTensor()) {
    found.tensor = tensor_of(value.toTensor(), rearranged);
  } else {
    found.kind = value.isNone() ? Kind::kNone : Kind::kList;
  }
  return found;
}

}  // namespace modelbuild
