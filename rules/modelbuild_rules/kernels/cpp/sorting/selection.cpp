// aten::kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices), and
// aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices).
#include <algorithm>
#include <numeric>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

// Selects the element of rank k (0 for the least) of each line. NaN is greater than all numbers; with `first_nan` it is
// selected whatever its rank. Of equal elements the first one is the least.
template <typename T>
void select(const Tensor& self, const Lines& lines, std::int64_t k, bool first_nan, Tensor& values, Tensor& indices) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(lines.size));
  for (std::int64_t outer = 0; outer < lines.outer; ++outer) {
    for (std::int64_t inner = 0; inner < lines.inner; ++inner) {
      const T* from = self.const_data_ptr<T>() + outer * lines.size * lines.inner + inner;
      const auto at = [&](std::int64_t i) { return from[i * lines.inner]; };
      std::iota(order.begin(), order.end(), 0);
      auto found = order.end();
      if (first_nan) found = std::find_if(order.begin(), order.end(), [&](std::int64_t i) { return is_nan(at(i)); });
      if (found == order.end()) {
        found = order.begin() + k;
        std::nth_element(order.begin(), found, order.end(), [&](std::int64_t a, std::int64_t b) {
          if (is_nan(at(a)) || is_nan(at(b))) return is_nan(at(a)) ? is_nan(at(b)) && a < b : true;
          return at(a) < at(b) || (!(at(b) < at(a)) && a < b);
        });
      }
      const std::int64_t place = outer * lines.inner + inner;
      values.mutable_data_ptr<T>()[place] = at(*found);
      indices.mutable_data_ptr<std::int64_t>()[place] = *found;
    }
  }
}

struct Selection {
  const Tensor& self;
  std::int64_t dimension;
  bool keep;
  bool first_nan;
  Tensor& values;
  Tensor& indices;
};

void run(KernelRuntimeContext& context, const Selection& selection, std::int64_t k) {
  const Tensor& self = selection.self;
  const std::vector<executorch::aten::SizesType> sizes = sizes_without(self, selection.dimension, selection.keep);
  const Lines lines(self, selection.dimension);
  MB_CHECK(context, selection.values.scalar_type() == self.scalar_type(), "values: expected the type of the input");
  MB_CHECK(context, selection.indices.scalar_type() == ScalarType::Long, "indices: expected int64");
  MB_CHECK(context, k >= 0 && k < lines.size, "k: expected 1 to the size of the dimension");
  MB_CHECK(context, resize(selection.values, sizes) && resize(selection.indices, sizes), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(selection.values) && row_major(selection.indices),
           "expected row-major order");
  const bool known = self.scalar_type() != ScalarType::Bool && with_any(self.scalar_type(), [&](auto type) {
                       select<decltype(type)>(self, lines, k, selection.first_nan, selection.values, selection.indices);
                     });
  MB_CHECK(context, known, "self: expected numbers");
}

void kthvalue(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t dimension = dimension_of(self, arguments[2]->toInt());
  MB_CHECK(context, dimension >= 0, "dim: the input has no such dimension");
  run(context, {self, dimension, arguments[3]->toBool(), false, arguments[4]->toTensor(), arguments[5]->toTensor()},
      arguments[1]->toInt() - 1);
}

void median(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t dimension = dimension_of(self, arguments[1]->toInt());
  MB_CHECK(context, dimension >= 0, "dim: the input has no such dimension");
  run(context, {self, dimension, arguments[2]->toBool(), true, arguments[3]->toTensor(), arguments[4]->toTensor()},
      (Lines(self, dimension).size - 1) / 2);
}

const Registration kKthvalue("aten::kthvalue.values", kthvalue);
const Registration kMedian("aten::median.dim_values", median);

}  // namespace
}  // namespace modelbuild::kernels
