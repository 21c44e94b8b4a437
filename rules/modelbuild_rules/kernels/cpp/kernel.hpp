// The common part of kernels: registration when the library is loaded, checks, and the choice of an element type.
#pragma once

#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

// Fails the operator, and with it the run, with a message. For functions that return nothing.
#define MB_CHECK(context, condition, ...) ET_KERNEL_CHECK_MSG(context, condition, InvalidArgument, , __VA_ARGS__)

namespace modelbuild::kernels {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;

// The arguments of an operator in its schema's order, its outputs last.
using Arguments = executorch::runtime::Span<EValue*>;

// Registers a kernel, unless ExecuTorch itself has one: a second kernel of a name would end the process.
struct Registration {
  Registration(const char* name, executorch::runtime::OpFunction function) {
    for (const executorch::runtime::Kernel& known : executorch::runtime::get_registered_kernels()) {
      if (std::strcmp(known.name_, name) == 0) return;
    }
    const Error ignored = executorch::runtime::register_kernel(executorch::runtime::Kernel(name, function));
    (void)ignored;  // always Ok
  }
};

// Returns whether elements lie in memory in the order of dimensions, the last one innermost.
inline bool row_major(const Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.dim_order().size(); ++i) {
    if (tensor.dim_order()[i] != i) return false;
  }
  return true;
}

using Sizes = std::vector<executorch::aten::SizesType>;

// Returns the sizes that both are expanded to; nothing if they don't fit.
inline std::optional<Sizes> broadcast(const Sizes& one, const Sizes& other) {
  Sizes result(std::max(one.size(), other.size()), 1);
  for (const Sizes* each : {&one, &other}) {
    for (std::size_t i = 0; i < each->size(); ++i) {
      auto& size = result[result.size() - 1 - i];
      const auto given = (*each)[each->size() - 1 - i];
      if (size != 1 && given != 1 && size != given) return std::nullopt;
      if (given != 1) size = given;
    }
  }
  return result;
}

// Gives an output its size. The program plans memory for the largest.
inline bool resize(Tensor& tensor, const Sizes& sizes) {
  return executorch::runtime::resize_tensor(tensor, {sizes.data(), sizes.size()}) == Error::Ok;
}

// Returns an argument that is a number. ExecuTorch's own conversions end the process for a whole number.
inline double number(const EValue& argument) {
  return argument.isInt()    ? static_cast<double>(argument.toInt())
         : argument.isBool() ? argument.toBool()
                             : argument.toDouble();
}

// Calls a function with a value of the element type; returns false for any other type.
template <typename Function>
bool with_float(ScalarType type, Function&& act) {
  switch (type) {
    case ScalarType::Float:
      act(float{});
      return true;
    case ScalarType::Double:
      act(double{});
      return true;
    default:
      return false;
  }
}

// The type in which values of a type are summed up.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The same for all floating-point types.
template <typename Function>
bool with_any_float(ScalarType type, Function&& act) {
  switch (type) {
    case ScalarType::Half:
      act(executorch::aten::Half{});
      return true;
    case ScalarType::BFloat16:
      act(executorch::aten::BFloat16{});
      return true;
    default:
      return with_float(type, act);
  }
}

// The same for all types of numbers, and for bool.
template <typename Function>
bool with_any(ScalarType type, Function&& act) {
  switch (type) {
    case ScalarType::Bool:
      act(bool{});
      return true;
    case ScalarType::Byte:
      act(std::uint8_t{});
      return true;
    case ScalarType::Char:
      act(std::int8_t{});
      return true;
    case ScalarType::Short:
      act(std::int16_t{});
      return true;
    case ScalarType::Int:
      act(std::int32_t{});
      return true;
    case ScalarType::Long:
      act(std::int64_t{});
      return true;
    default:
      return with_any_float(type, act);
  }
}

// Returns a tensor's whole numbers; nothing for another type.
inline std::optional<std::vector<std::int64_t>> whole_numbers(const Tensor& tensor) {
  std::optional<std::vector<std::int64_t>> found;
  with_any(tensor.scalar_type(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T* from = tensor.const_data_ptr<T>();
      found.emplace(from, from + tensor.numel());
    }
  });
  return found;
}

// Returns whether a value is NaN, which only floating-point types have.
template <typename T>
bool is_nan(T value) {
  return value != value;  // NOLINT(misc-redundant-expression)
}

// A row-major tensor as `outer` blocks of `size` rows of `inner` elements, for work along one dimension.
struct Lines {
  Lines(const Tensor& tensor, std::int64_t dimension) {
    for (std::int64_t i = 0; i < tensor.dim(); ++i) {
      (i < dimension ? outer : i == dimension ? size : inner) *= tensor.size(i);
    }
  }

  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};

// Returns a dimension counted from the first one; -1 if there is none. A number has one dimension.
inline std::int64_t dimension_of(const Tensor& tensor, std::int64_t given) {
  const std::int64_t count = tensor.dim() == 0 ? 1 : tensor.dim();
  const std::int64_t found = given < 0 ? given + count : given;
  return found >= 0 && found < count ? found : -1;
}

// Returns a tensor's sizes without a dimension, or with 1 in its place.
inline std::vector<executorch::aten::SizesType> sizes_without(const Tensor& tensor, std::int64_t dimension, bool keep) {
  std::vector<executorch::aten::SizesType> sizes;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (d != dimension) sizes.push_back(tensor.sizes()[static_cast<std::size_t>(d)]);
    if (d == dimension && keep) sizes.push_back(1);
  }
  return sizes;
}

}  // namespace modelbuild::kernels
