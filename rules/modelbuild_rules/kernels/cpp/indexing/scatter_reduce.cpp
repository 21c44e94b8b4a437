// aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)
// -> Tensor: each element of `src` is combined with the element of `self` that `index` names along a dimension.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

enum class Reduction { kSum, kProduct, kMean, kMaximum, kMinimum, kUnknown };

Reduction reduction_of(std::string_view name) {
  if (name == "sum") return Reduction::kSum;
  if (name == "prod") return Reduction::kProduct;
  if (name == "mean") return Reduction::kMean;
  if (name == "amax") return Reduction::kMaximum;
  if (name == "amin") return Reduction::kMinimum;
  return Reduction::kUnknown;
}

// Combines two values; NaN wins, as in eager mode.
template <typename T>
T combined(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::kProduct:
      return static_cast<T>(a * b);
    case Reduction::kMaximum:
      return is_nan(a) || a > b ? a : b;
    case Reduction::kMinimum:
      return is_nan(a) || a < b ? a : b;
    default:
      return static_cast<T>(a + b);
  }
}

// Divides a sum; whole numbers are rounded down.
template <typename T>
T divided(T sum, std::int64_t count) {
  if constexpr (std::is_integral_v<T>) {
    const auto whole = static_cast<std::int64_t>(sum);  // NOLINT(bugprone-signed-char-misuse): a number
    return static_cast<T>(whole / count - (whole % count != 0 && whole < 0 ? 1 : 0));
  } else {
    return static_cast<T>(sum / static_cast<T>(count));
  }
}

// The row-major offset in `self` of each element of `index`, counted along all dimensions; -1 for an invalid index.
class Targets {
 public:
  Targets(const Tensor& self, const Tensor& index, const Tensor& src, std::int64_t dimension)
      : self_(self), index_(index), src_(src), dimension_(dimension) {}

  // Calls a function with the offsets in `self` and in `src`; returns false for an index out of range.
  template <typename Function>
  bool each(Function&& act) const {
    std::vector<std::int64_t> at(static_cast<std::size_t>(index_.dim()));
    for (std::int64_t i = 0; i < index_.numel(); ++i) {
      const std::int64_t chosen = index_.const_data_ptr<std::int64_t>()[i];
      if (self_.dim() > 0 && (chosen < 0 || chosen >= self_.size(dimension_))) return false;
      std::int64_t to = 0;
      std::int64_t from = 0;
      for (std::int64_t d = 0; d < index_.dim(); ++d) {
        to += (d == dimension_ ? chosen : at[d]) * self_.strides()[d];
        from += at[d] * src_.strides()[d];
      }
      act(to, from);
      for (std::int64_t d = index_.dim() - 1; d >= 0 && ++at[d] == index_.size(d); --d) at[d] = 0;
    }
    return true;
  }

 private:
  const Tensor& self_;
  const Tensor& index_;
  const Tensor& src_;
  std::int64_t dimension_;
};

template <typename T>
bool reduce(Reduction reduction, const Tensor& self, const Targets& targets, const Tensor& src, bool include_self,
            Tensor& out) {
  T* to = out.mutable_data_ptr<T>();
  std::copy_n(self.const_data_ptr<T>(), self.numel(), to);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(self.numel()), include_self ? 1 : 0);
  const T* from = src.const_data_ptr<T>();
  const bool valid = targets.each([&](std::int64_t at, std::int64_t source) {
    to[at] = counts[at]++ == 0 ? from[source] : combined(reduction, to[at], from[source]);
  });
  if (valid && reduction == Reduction::kMean) {
    for (std::int64_t i = 0; i < self.numel(); ++i) {
      if (counts[i] > 1) to[i] = divided(to[i], counts[i]);
    }
  }
  return valid;
}

void scatter_reduce(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t dimension = dimension_of(self, arguments[1]->toInt());
  const Tensor& index = arguments[2]->toTensor();
  const Tensor& src = arguments[3]->toTensor();
  const Reduction reduction = reduction_of(arguments[4]->toString());
  const bool include_self = arguments[5]->toBool();
  Tensor& out = arguments[6]->toTensor();
  MB_CHECK(context, dimension >= 0, "dim: the input has no such dimension");
  MB_CHECK(context, reduction != Reduction::kUnknown, "reduce: expected sum, prod, mean, amax or amin");
  MB_CHECK(context, index.scalar_type() == ScalarType::Long, "index: expected int64");
  MB_CHECK(context, src.scalar_type() == self.scalar_type(), "src: expected the type of the input");
  MB_CHECK(context, index.dim() == self.dim() && src.dim() == self.dim(), "expected tensors of one rank");
  for (std::int64_t d = 0; d < self.dim(); ++d) {
    const bool fits = index.size(d) <= src.size(d) && (d == dimension || index.size(d) <= self.size(d));
    MB_CHECK(context, fits || index.numel() == 0, "index: larger than the tensors in dimension %d",
             static_cast<int>(d));
  }
  const std::vector<executorch::aten::SizesType> sizes(self.sizes().begin(), self.sizes().end());
  MB_CHECK(context, resize(out, sizes), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(index) && row_major(src) && row_major(out),
           "expected row-major order");
  bool valid = true;
  const bool known = self.scalar_type() != ScalarType::Bool && with_any(self.scalar_type(), [&](auto type) {
                       using T = decltype(type);
                       if constexpr (!std::is_same_v<T, bool>) {
                         valid =
                             reduce<T>(reduction, self, Targets(self, index, src, dimension), src, include_self, out);
                       }
                     });
  MB_CHECK(context, known, "self: expected numbers");
  MB_CHECK(context, valid, "index: expected numbers below the size of the dimension");
}

const Registration kRegistered("aten::scatter_reduce.two_out", scatter_reduce);

}  // namespace
}  // namespace modelbuild::kernels
