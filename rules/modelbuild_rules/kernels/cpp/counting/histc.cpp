// aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor: how many elements are in each of equal
// intervals between two numbers, by default the least and the greatest element. The last interval includes its end.
#include <algorithm>
#include <cmath>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

struct Range {
  double low;
  double high;
};

// Returns the least and the greatest element; NaN if there is one.
template <typename T>
Range range_of(const T* elements, std::int64_t count) {
  T low = elements[0];
  T high = elements[0];
  for (std::int64_t i = 0; i < count && !is_nan(low); ++i) {
    if (is_nan(elements[i]) || elements[i] < low) low = elements[i];
    if (is_nan(elements[i]) || elements[i] > high) high = elements[i];
  }
  return {static_cast<double>(low), static_cast<double>(high)};
}

// Counts with the arithmetic of the element type, as eager mode does: it decides for elements at the edges.
template <typename T>
std::vector<std::int64_t> count_in(const Tensor& self, const Range& range, std::int64_t bins) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(bins));
  const T low = static_cast<T>(range.low);
  const T high = static_cast<T>(range.high);
  const T* from = self.const_data_ptr<T>();
  for (std::int64_t i = 0; i < self.numel(); ++i) {
    if (!(from[i] >= low && from[i] <= high)) continue;  // NaN is in no interval
    const T place = static_cast<T>(static_cast<T>(static_cast<T>(from[i] - low) * static_cast<T>(bins)) /
                                   static_cast<T>(high - low));
    const auto found = static_cast<double>(place);
    ++counts[static_cast<std::size_t>(found >= 0 && found < static_cast<double>(bins) ? found
                                                                                      : static_cast<double>(bins - 1))];
  }
  return counts;
}

void histc(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t bins = arguments[1]->toInt();
  Range range{number(*arguments[2]), number(*arguments[3])};
  Tensor& out = arguments[4]->toTensor();
  MB_CHECK(context, bins > 0, "bins: expected 1 or more");
  MB_CHECK(context, out.scalar_type() == self.scalar_type(), "out: expected the type of the input");
  MB_CHECK(context, resize(out, {static_cast<executorch::aten::SizesType>(bins)}), "out: no room for the result");
  const bool known = with_any_float(self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    if (range.low == range.high && self.numel() > 0) range = range_of(self.const_data_ptr<T>(), self.numel());
    if (range.low == range.high) range = {range.low - 1, range.high + 1};
    MB_CHECK(context, std::isfinite(range.low) && std::isfinite(range.high),
             "self: the range of [%g, %g] is not finite", range.low, range.high);
    MB_CHECK(context, range.low < range.high, "max: expected more than min");
    const std::vector<std::int64_t> counts = count_in<T>(self, range, bins);
    std::transform(counts.begin(), counts.end(), out.mutable_data_ptr<T>(),
                   [](std::int64_t count) { return static_cast<T>(static_cast<Sum<T>>(count)); });
  });
  MB_CHECK(context, known, "self: expected floating-point numbers");
}

const Registration kRegistered("aten::histc.out", histc);

}  // namespace
}  // namespace modelbuild::kernels
