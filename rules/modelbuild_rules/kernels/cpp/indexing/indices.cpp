// aten::tril_indices(int row, int col, int offset=0) -> Tensor, and triu_indices: the places of a triangle's elements,
// row by row, as two rows of coordinates.
#include <algorithm>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

void triangle(KernelRuntimeContext& context, Arguments arguments, bool lower) {
  const std::int64_t rows = arguments[0]->toInt();
  const std::int64_t columns = arguments[1]->toInt();
  const std::int64_t offset = arguments[2]->toInt();
  Tensor& out = arguments[3]->toTensor();
  MB_CHECK(context, rows >= 0 && columns >= 0, "expected sizes of 0 or more");
  std::vector<std::int64_t> of_rows;
  std::vector<std::int64_t> of_columns;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = lower ? 0 : std::max<std::int64_t>(row + offset, 0);
    const std::int64_t last = lower ? std::min(row + offset + 1, columns) : columns;
    for (std::int64_t column = first; column < last; ++column) {
      of_rows.push_back(row);
      of_columns.push_back(column);
    }
  }
  MB_CHECK(context, resize(out, {2, static_cast<int>(of_rows.size())}), "out: no room for the indices");
  const bool known = with_any(out.scalar_type(), [&](auto type) {
    using T = decltype(type);
    T* to = out.mutable_data_ptr<T>();
    for (const std::vector<std::int64_t>& each : {of_rows, of_columns}) {
      to = std::transform(each.begin(), each.end(), to, [](std::int64_t index) { return static_cast<T>(index); });
    }
  });
  MB_CHECK(context, known, "out: a type without numbers");
}

const Registration kLower("aten::tril_indices.out", [](KernelRuntimeContext& context, Arguments arguments) {
  triangle(context, arguments, true);
});
const Registration kUpper("aten::triu_indices.out", [](KernelRuntimeContext& context, Arguments arguments) {
  triangle(context, arguments, false);
});

}  // namespace
}  // namespace modelbuild::kernels
