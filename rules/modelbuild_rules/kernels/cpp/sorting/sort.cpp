// aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices), and its overload
// `stable`. Both are stable, as eager mode's on the CPU.
#include <algorithm>
#include <numeric>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

// Sorts the lines of a tensor. NaN is greater than all numbers.
template <typename T>
void sort_lines(const Tensor& self, const Lines& lines, bool descending, Tensor& values, Tensor& indices) {
  const auto less = [](T a, T b) { return a < b || (is_nan(b) && !is_nan(a)); };
  std::vector<std::int64_t> order(static_cast<std::size_t>(lines.size));
  for (std::int64_t outer = 0; outer < lines.outer; ++outer) {
    for (std::int64_t inner = 0; inner < lines.inner; ++inner) {
      const std::int64_t start = outer * lines.size * lines.inner + inner;
      const T* from = self.const_data_ptr<T>() + start;
      const auto at = [&](std::int64_t i) { return from[i * lines.inner]; };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return descending ? less(at(b), at(a)) : less(at(a), at(b));
      });
      for (std::int64_t i = 0; i < lines.size; ++i) {
        values.mutable_data_ptr<T>()[start + i * lines.inner] = at(order[i]);
        indices.mutable_data_ptr<std::int64_t>()[start + i * lines.inner] = order[i];
      }
    }
  }
}

void sort_into(KernelRuntimeContext& context, const Tensor& self, std::int64_t given, bool descending, Tensor& values,
               Tensor& indices) {
  const std::int64_t dimension = dimension_of(self, given);
  MB_CHECK(context, dimension >= 0, "dim: the input has no dimension %d", static_cast<int>(given));
  MB_CHECK(context, values.scalar_type() == self.scalar_type(), "values: expected the type of the input");
  MB_CHECK(context, indices.scalar_type() == ScalarType::Long, "indices: expected int64");
  const std::vector<executorch::aten::SizesType> sizes(self.sizes().begin(), self.sizes().end());
  MB_CHECK(context, resize(values, sizes) && resize(indices, sizes), "no room for the results");
  MB_CHECK(context, row_major(self) && row_major(values) && row_major(indices), "expected row-major order");
  const bool known = with_any(self.scalar_type(), [&](auto type) {
    sort_lines<decltype(type)>(self, Lines(self, dimension), descending, values, indices);
  });
  MB_CHECK(context, known, "self: a type without order");
}

void sort(KernelRuntimeContext& context, Arguments arguments) {
  sort_into(context, arguments[0]->toTensor(), arguments[1]->toInt(), arguments[2]->toBool(), arguments[3]->toTensor(),
            arguments[4]->toTensor());
}

void sort_stable(KernelRuntimeContext& context, Arguments arguments) {
  sort_into(context, arguments[0]->toTensor(), arguments[2]->toInt(), arguments[3]->toBool(), arguments[4]->toTensor(),
            arguments[5]->toTensor());
}

const Registration kSort("aten::sort.values", sort);
const Registration kSortStable("aten::sort.values_stable", sort_stable);

}  // namespace
}  // namespace modelbuild::kernels
