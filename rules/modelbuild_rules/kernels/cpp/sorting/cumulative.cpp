// aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor,
// aten::logcumsumexp(Tensor self, int dim) -> Tensor, and
// aten::cummax, aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices).
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

// The type in which eager mode multiplies on the CPU.
template <typename T>
using Product =
    std::conditional_t<std::is_integral_v<T>, std::int64_t, std::conditional_t<sizeof(T) == 2, float, double>>;

template <typename From, typename To>
void multiply(const Tensor& self, const Lines& lines, Tensor& out) {
  const From* from = self.const_data_ptr<From>();
  To* to = out.mutable_data_ptr<To>();
  for (std::int64_t outer = 0; outer < lines.outer; ++outer) {
    for (std::int64_t inner = 0; inner < lines.inner; ++inner) {
      Product<To> product = 1;
      for (std::int64_t i = 0; i < lines.size; ++i) {
        const std::int64_t at = (outer * lines.size + i) * lines.inner + inner;
        product *= static_cast<Product<To>>(static_cast<To>(from[at]));
        to[at] = static_cast<To>(product);
      }
    }
  }
}

void cumprod(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t dimension = dimension_of(self, arguments[1]->toInt());
  Tensor& out = arguments[3]->toTensor();  // its type is that of `dtype`, or follows from the input's
  MB_CHECK(context, dimension >= 0, "dim: the input has no such dimension");
  MB_CHECK(context, resize(out, {self.sizes().begin(), self.sizes().end()}), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(out), "expected row-major order");
  const Lines lines(self, dimension);
  bool supported = true;
  const bool known = with_any(self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    if (out.scalar_type() == self.scalar_type()) {
      multiply<T, T>(self, lines, out);
    } else if (out.scalar_type() == ScalarType::Long) {
      multiply<T, std::int64_t>(self, lines, out);
    } else if (out.scalar_type() == ScalarType::Float) {
      multiply<T, float>(self, lines, out);
    } else {
      supported = false;
    }
  });
  MB_CHECK(context, known, "self: expected numbers");
  MB_CHECK(context, supported, "dtype: expected float32, int64 or the type of the input");
}

// Returns the logarithm of the sum of two exponentials.
double log_of_sum(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  if (x == y && std::isinf(x)) return x;  // their difference is NaN
  return std::max(x, y) + std::log1p(std::exp(-std::fabs(x - y)));
}

void logcumsumexp(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t dimension = dimension_of(self, arguments[1]->toInt());
  Tensor& out = arguments[2]->toTensor();
  MB_CHECK(context, dimension >= 0, "dim: the input has no such dimension");
  MB_CHECK(context, out.scalar_type() == self.scalar_type(), "out: expected the type of the input");
  MB_CHECK(context, resize(out, {self.sizes().begin(), self.sizes().end()}), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(out), "expected row-major order");
  const Lines lines(self, dimension);
  const bool known = with_any_float(self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    for (std::int64_t outer = 0; outer < lines.outer; ++outer) {
      for (std::int64_t inner = 0; inner < lines.inner; ++inner) {
        double sum = -std::numeric_limits<double>::infinity();
        for (std::int64_t i = 0; i < lines.size; ++i) {
          const std::int64_t at = (outer * lines.size + i) * lines.inner + inner;
          sum = log_of_sum(sum, static_cast<double>(self.const_data_ptr<T>()[at]));
          out.mutable_data_ptr<T>()[at] = static_cast<T>(sum);
        }
      }
    }
  });
  MB_CHECK(context, known, "self: expected floating-point numbers");
}

// Finds the greatest value so far, or the least; of equal values the last, and of all the first NaN's successors.
template <typename T>
void extremes(const Tensor& self, const Lines& lines, bool greatest, Tensor& values, Tensor& indices) {
  const T* from = self.const_data_ptr<T>();
  for (std::int64_t outer = 0; outer < lines.outer; ++outer) {
    for (std::int64_t inner = 0; inner < lines.inner; ++inner) {
      const auto at = [&](std::int64_t i) { return (outer * lines.size + i) * lines.inner + inner; };
      std::int64_t best = 0;
      for (std::int64_t i = 0; i < lines.size; ++i) {
        const T value = from[at(i)];
        const T found = from[at(best)];
        if (is_nan(value) || (!is_nan(found) && (greatest ? value >= found : value <= found))) best = i;
        values.mutable_data_ptr<T>()[at(i)] = from[at(best)];
        indices.mutable_data_ptr<std::int64_t>()[at(i)] = best;
      }
    }
  }
}

void cumulative_extreme(KernelRuntimeContext& context, Arguments arguments, bool greatest) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t dimension = dimension_of(self, arguments[1]->toInt());
  Tensor& values = arguments[2]->toTensor();
  Tensor& indices = arguments[3]->toTensor();
  MB_CHECK(context, dimension >= 0, "dim: the input has no such dimension");
  MB_CHECK(context, values.scalar_type() == self.scalar_type(), "values: expected the type of the input");
  MB_CHECK(context, indices.scalar_type() == ScalarType::Long, "indices: expected int64");
  const std::vector<executorch::aten::SizesType> sizes(self.sizes().begin(), self.sizes().end());
  MB_CHECK(context, resize(values, sizes) && resize(indices, sizes), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(values) && row_major(indices), "expected row-major order");
  const bool known = with_any(self.scalar_type(), [&](auto type) {
    extremes<decltype(type)>(self, Lines(self, dimension), greatest, values, indices);
  });
  MB_CHECK(context, known, "self: expected numbers");
}

void cummax(KernelRuntimeContext& context, Arguments arguments) { cumulative_extreme(context, arguments, true); }
void cummin(KernelRuntimeContext& context, Arguments arguments) { cumulative_extreme(context, arguments, false); }

const Registration kCumprod("aten::cumprod.out", cumprod);
const Registration kLogcumsumexp("aten::logcumsumexp.out", logcumsumexp);
const Registration kCummax("aten::cummax.out", cummax);
const Registration kCummin("aten::cummin.out", cummin);

}  // namespace
}  // namespace modelbuild::kernels
