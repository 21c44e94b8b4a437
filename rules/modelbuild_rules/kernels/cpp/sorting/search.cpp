// aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False,
//                           str? side=None, Tensor? sorter=None) -> Tensor, and
// aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor.
#include <optional>
#include <string_view>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

struct Search {
  const Tensor& sequence;  // one row for all values, or one for each row of values
  const Tensor* order;     // of each row's elements; nullptr if they are sorted
  const Tensor& values;
  bool right;
  Tensor& out;
};

// Returns the first place in a row whose element is not less than a value (or, to the right, greater). No element is
// less than NaN, as in eager mode.
template <typename T>
std::int64_t place(const T* row, const std::int64_t* order, std::int64_t size, T value, bool right) {
  std::int64_t start = 0;
  while (start < size) {
    const std::int64_t middle = start + (size - start) / 2;
    const T found = row[order == nullptr ? middle : order[middle]];
    if (right ? !(found > value) : !(found >= value)) {
      start = middle + 1;
    } else {
      size = middle;
    }
  }
  return start;
}

template <typename T, typename Place>
bool search_all(const Search& search) {
  const Tensor& sequence = search.sequence;
  const std::int64_t size = sequence.size(sequence.dim() - 1);
  const std::int64_t count = search.values.numel();
  const std::int64_t rows = size == 0 ? 1 : sequence.numel() / size;
  const std::int64_t columns = sequence.dim() == 1 ? count : search.values.size(search.values.dim() - 1);
  const std::int64_t* order = search.order == nullptr ? nullptr : search.order->const_data_ptr<std::int64_t>();
  if (order != nullptr) {
    for (std::int64_t i = 0; i < sequence.numel(); ++i) {
      if (order[i] < 0 || order[i] >= size) return false;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start = sequence.dim() == 1 || rows == 1 ? 0 : i / columns * size;
    const T* row = sequence.const_data_ptr<T>() + start;
    const T value = search.values.const_data_ptr<T>()[i];
    const std::int64_t found = place(row, order == nullptr ? nullptr : order + start, size, value, search.right);
    search.out.mutable_data_ptr<Place>()[i] = static_cast<Place>(found);
  }
  return true;
}

// The values have the sequence's leading dimensions, unless it has one dimension.
bool same_rows(const Tensor& sequence, const Tensor& values) {
  if (sequence.dim() == 1) return true;
  if (sequence.dim() != values.dim()) return false;
  for (std::int64_t d = 0; d + 1 < sequence.dim(); ++d) {
    if (sequence.size(d) != values.size(d)) return false;
  }
  return true;
}

void run(KernelRuntimeContext& context, const Search& search) {
  const Tensor& values = search.values;
  const ScalarType type = search.sequence.scalar_type();
  MB_CHECK(context, search.sequence.dim() > 0, "boundaries: expected one or more dimensions");
  MB_CHECK(context, type == values.scalar_type(), "expected boundaries and values of one type");
  MB_CHECK(context, search.out.scalar_type() == ScalarType::Int || search.out.scalar_type() == ScalarType::Long,
           "out: expected int32 or int64");
  MB_CHECK(context, same_rows(search.sequence, values), "expected equal leading dimensions of boundaries and values");
  MB_CHECK(context,
           search.order == nullptr ||
               (search.order->scalar_type() == ScalarType::Long && search.order->numel() == search.sequence.numel()),
           "sorter: expected int64 of the shape of the boundaries");
  MB_CHECK(context, resize(search.out, {values.sizes().begin(), values.sizes().end()}), "out: no room for the result");
  MB_CHECK(context, row_major(search.sequence) && row_major(values) && row_major(search.out),
           "expected row-major order");
  bool valid = true;
  const bool known = type != ScalarType::Bool && with_any(type, [&](auto each) {
                       using T = decltype(each);
                       valid = search.out.scalar_type() == ScalarType::Int ? search_all<T, std::int32_t>(search)
                                                                           : search_all<T, std::int64_t>(search);
                     });
  MB_CHECK(context, known, "boundaries: expected numbers");
  MB_CHECK(context, valid, "sorter: expected places in the boundaries");
}

void searchsorted(KernelRuntimeContext& context, Arguments arguments) {
  const auto side = arguments[4]->toOptional<std::string_view>();
  const auto sorter = arguments[5]->toOptional<Tensor>();
  const bool right = arguments[3]->toBool() || (side && *side == "right");
  run(context, {arguments[0]->toTensor(), sorter ? &*sorter : nullptr, arguments[1]->toTensor(), right,
                arguments[6]->toTensor()});
}

void bucketize(KernelRuntimeContext& context, Arguments arguments) {
  run(context,
      {arguments[1]->toTensor(), nullptr, arguments[0]->toTensor(), arguments[3]->toBool(), arguments[4]->toTensor()});
}

const Registration kSearchsorted("aten::searchsorted.Tensor_out", searchsorted);
const Registration kBucketize("aten::bucketize.Tensor_out", bucketize);

}  // namespace
}  // namespace modelbuild::kernels
