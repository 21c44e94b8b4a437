// aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor: how often each number occurs, or the
// sum of its weights.
#include <algorithm>
#include <limits>
#include <optional>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

// Adds a weight for each number, or 1.
template <typename T>
bool add(const std::vector<std::int64_t>& numbers, const std::optional<Tensor>& weights, T* to) {
  if (!weights) {
    for (const std::int64_t each : numbers) to[each] += 1;
    return true;
  }
  return with_any(weights->scalar_type(), [&](auto type) {
    const auto* weight = weights->template const_data_ptr<decltype(type)>();
    for (const std::int64_t each : numbers) to[each] += static_cast<T>(*weight++);
  });
}

void bincount(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const auto weights = arguments[1]->toOptional<Tensor>();
  const std::int64_t least = arguments[2]->toInt();
  Tensor& out = arguments[3]->toTensor();
  const auto numbers = whole_numbers(self);
  MB_CHECK(context, numbers.has_value(), "self: expected whole numbers");
  MB_CHECK(context, least >= 0, "minlength: expected 0 or more");
  MB_CHECK(context, self.dim() == 1, "self: expected a vector");
  MB_CHECK(context, !weights || (weights->dim() == 1 && weights->numel() == self.numel()),
           "weights: expected one for each number");
  const auto [low, high] = std::minmax_element(numbers->begin(), numbers->end());
  MB_CHECK(context, numbers->empty() || *low >= 0, "self: expected numbers of 0 or more");
  const std::int64_t last = numbers->empty() ? -1 : *high;
  MB_CHECK(context, std::max(last, least) < std::numeric_limits<executorch::aten::SizesType>::max(),
           "self: a number is too great to be counted");
  const auto size = static_cast<executorch::aten::SizesType>(std::max(last + 1, least));
  MB_CHECK(context, resize(out, {size}), "out: no room for %d counts; the program's bound is less",
           static_cast<int>(size));
  const bool whole = out.scalar_type() == ScalarType::Long;
  MB_CHECK(
      context,
      whole == !weights && (whole || out.scalar_type() == ScalarType::Float || out.scalar_type() == ScalarType::Double),
      "out: expected int64, or float32 or float64 for weights");
  bool known = false;
  with_any(out.scalar_type(), [&](auto type) {
    auto* to = out.mutable_data_ptr<decltype(type)>();
    std::fill_n(to, size, decltype(type)(0));
    known = add(*numbers, weights, to);
  });
  MB_CHECK(context, known, "weights: expected numbers");
}

const Registration kRegistered("aten::bincount.out", bincount);

}  // namespace
}  // namespace modelbuild::kernels
