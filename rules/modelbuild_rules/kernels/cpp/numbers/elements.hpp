// Kernels that apply a function to each number of a tensor, or of two that are broadcast, computed in double.
#pragma once

#include "kernel.hpp"

namespace modelbuild::kernels {

// Sets each number of a tensor to a function's value of the number at the same place in another.
template <typename Function>
void map(KernelRuntimeContext& context, const Tensor& self, Tensor& out, Function&& function) {
  MB_CHECK(context, resize(out, {self.sizes().begin(), self.sizes().end()}), "out: no room for the result");
  MB_CHECK(context, self.dim_order() == out.dim_order(), "expected one order of dimensions");
  const bool known = with_any(self.scalar_type(), [&](auto from) {
    with_any(out.scalar_type(), [&](auto to) {
      const auto* x = self.const_data_ptr<decltype(from)>();
      auto* y = out.mutable_data_ptr<decltype(to)>();
      for (std::int64_t i = 0; i < self.numel(); ++i) {
        y[i] = static_cast<decltype(to)>(function(static_cast<double>(x[i])));
      }
    });
  });
  MB_CHECK(context, known, "self: expected numbers");
}

// A kernel of a function of one number.
template <double (*kFunction)(double)>
void function(KernelRuntimeContext& context, Arguments arguments) {
  map(context, arguments[0]->toTensor(), arguments[1]->toTensor(), kFunction);
}

// Returns the place of a broadcast tensor's element, of which a larger tensor has the given number.
inline std::int64_t place(const Tensor& tensor, const Tensor& larger, std::int64_t number) {
  std::int64_t found = 0;
  std::int64_t step = 1;
  for (std::int64_t back = 1; back <= tensor.dim(); ++back) {
    const std::int64_t size = larger.size(larger.dim() - back);
    const std::int64_t own = tensor.size(tensor.dim() - back);
    if (own != 1) found += number % size * step;
    step *= own;
    number /= size;
  }
  return found;
}

// Returns the sizes that two tensors are broadcast to; nothing if they don't fit.
inline std::optional<Sizes> sizes_of_both(const Tensor& one, const Tensor& other) {
  return broadcast({one.sizes().begin(), one.sizes().end()}, {other.sizes().begin(), other.sizes().end()});
}

// A tensor's numbers as a type, or one number.
template <typename T>
struct Operand {
  explicit Operand(const EValue& argument) {
    if (!argument.isTensor()) {
      numbers.push_back(static_cast<T>(number(argument)));
      return;
    }
    tensor = &argument.toTensor();
    known = row_major(*tensor) && with_any(tensor->scalar_type(), [&](auto type) {
              const auto* from = tensor->const_data_ptr<decltype(type)>();
              for (std::int64_t i = 0; i < tensor->numel(); ++i) numbers.push_back(static_cast<T>(from[i]));
            });
  }

  T at(const Tensor& larger, std::int64_t i) const {
    return numbers[static_cast<std::size_t>(tensor == nullptr ? 0 : place(*tensor, larger, i))];
  }

  const Tensor* tensor = nullptr;
  bool known = true;
  std::vector<T> numbers;
};

// Sets each number of the third argument to a function's value of those of the first two, as numbers of a type, and of
// a value of the third's type. One of the two may be a number.
template <typename T, typename Function>
void map_both(KernelRuntimeContext& context, Arguments arguments, Function&& function) {
  const Operand<T> self(*arguments[0]);
  const Operand<T> other(*arguments[1]);
  MB_CHECK(context, self.known && other.known, "expected numbers in row-major order");
  const Tensor* one = self.tensor != nullptr ? self.tensor : other.tensor;
  const Tensor* two = other.tensor != nullptr ? other.tensor : self.tensor;
  MB_CHECK(context, one != nullptr, "expected a tensor");
  Tensor& out = arguments[2]->toTensor();
  const std::optional<Sizes> sizes = sizes_of_both(*one, *two);
  MB_CHECK(context, sizes, "expected sizes that can be broadcast");
  MB_CHECK(context, resize(out, *sizes), "out: no room for the result");
  MB_CHECK(context, row_major(out), "expected row-major order");
  const bool known = with_any(out.scalar_type(), [&](auto type) {
    auto* to = out.mutable_data_ptr<decltype(type)>();
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      to[i] = static_cast<decltype(type)>(function(self.at(out, i), other.at(out, i), type));
    }
  });
  MB_CHECK(context, known, "out: expected numbers");
}

// A kernel of a function of two numbers.
template <double (*kFunction)(double, double)>
void function_of_both(KernelRuntimeContext& context, Arguments arguments) {
  map_both<double>(context, arguments, [](double x, double y, auto) { return kFunction(x, y); });
}

}  // namespace modelbuild::kernels
