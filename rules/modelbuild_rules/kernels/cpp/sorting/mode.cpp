// aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices): the most frequent value
// of each line, the least of several, and the index of its last element.
#include <algorithm>
#include <numeric>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

template <typename T>
void find_modes(const Tensor& self, const Lines& lines, Tensor& values, Tensor& indices) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(lines.size));
  for (std::int64_t outer = 0; outer < lines.outer; ++outer) {
    for (std::int64_t inner = 0; inner < lines.inner; ++inner) {
      const T* from = self.const_data_ptr<T>() + outer * lines.size * lines.inner + inner;
      const auto at = [&](std::int64_t i) { return from[i * lines.inner]; };
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        if (is_nan(at(a)) || is_nan(at(b))) return is_nan(at(a)) ? is_nan(at(b)) && a < b : true;
        return at(a) < at(b) || (!(at(b) < at(a)) && a < b);
      });
      std::int64_t found = 0;
      std::int64_t most = 0;
      for (std::int64_t i = 0, start = 0; i < lines.size; ++i) {
        if (i + 1 < lines.size && at(order[i]) == at(order[i + 1])) continue;  // NaN equals nothing
        if (i + 1 - start > most) {
          most = i + 1 - start;
          found = order[i];
        }
        start = i + 1;
      }
      const std::int64_t place = outer * lines.inner + inner;
      values.mutable_data_ptr<T>()[place] = at(found);
      indices.mutable_data_ptr<std::int64_t>()[place] = found;
    }
  }
}

void mode(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const std::int64_t dimension = dimension_of(self, arguments[1]->toInt());
  Tensor& values = arguments[3]->toTensor();
  Tensor& indices = arguments[4]->toTensor();
  MB_CHECK(context, dimension >= 0, "dim: the input has no such dimension");
  const Lines lines(self, dimension);
  const std::vector<executorch::aten::SizesType> sizes = sizes_without(self, dimension, arguments[2]->toBool());
  MB_CHECK(context, values.scalar_type() == self.scalar_type(), "values: expected the type of the input");
  MB_CHECK(context, indices.scalar_type() == ScalarType::Long, "indices: expected int64");
  MB_CHECK(context, lines.size > 0, "dim: expected a dimension with elements");
  MB_CHECK(context, resize(values, sizes) && resize(indices, sizes), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(values) && row_major(indices), "expected row-major order");
  const bool known =
      with_any(self.scalar_type(), [&](auto type) { find_modes<decltype(type)>(self, lines, values, indices); });
  MB_CHECK(context, known, "self: expected numbers");
}

const Registration kRegistered("aten::mode.values", mode);

}  // namespace
}  // namespace modelbuild::kernels
