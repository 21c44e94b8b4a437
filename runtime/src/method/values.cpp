#include "method/values.hpp"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>

#include "devices/device_services.hpp"
#include "method/layout.hpp"

namespace modelbuild {
namespace {

namespace er = executorch::runtime;

std::vector<executorch::aten::StridesType> strides_of(const std::vector<executorch::aten::SizesType>& sizes,
                                                      const std::vector<executorch::aten::DimOrderType>& order) {
  std::vector<executorch::aten::StridesType> strides(sizes.size());
  er::dim_order_to_stride_nocheck(sizes.data(), order.data(), sizes.size(), strides.data());
  return strides;
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

WrappedTensor::WrappedTensor(void* data, const Port& port, std::span<const std::int64_t> shape)
    : sizes_(shape.begin(), shape.end()),
      order_(port.dim_order.begin(), port.dim_order.end()),
      strides_(strides_of(sizes_, order_)),
      tensor_(static_cast<executorch::aten::ScalarType>(port.dtype), static_cast<ssize_t>(sizes_.size()), sizes_.data(),
              data, order_.data(), strides_.data(), er::TensorShapeDynamism::DYNAMIC_BOUND,
              port.device.cuda ? er::etensor::DeviceType::CUDA : er::etensor::DeviceType::CPU,
              static_cast<er::etensor::DeviceIndex>(port.device.index)) {}

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
