// The distinct elements of a tensor, or its distinct slices along a dimension, with the place of each input among them
// (`inverse`) and their counts:
// aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False)
// aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False)
// aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)
// each -> (Tensor, Tensor, Tensor). The results are sorted, as eager mode's on the CPU, whatever `sorted` is.
#include <algorithm>
#include <numeric>
#include <optional>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

struct Unique {
  const Tensor& self;
  std::optional<std::int64_t> dimension;  // of slices
  bool consecutive = false;               // only neighbours are compared, and nothing is sorted
  bool inverse = false;
  bool counts = false;
  Tensor& values;
  Tensor& places;
  Tensor& numbers;
};

// The same for numbers of all types that tensors may have and that are ordered.
template <typename Function>
bool with_ordered(ScalarType type, Function&& act) {
  switch (type) {
    case ScalarType::UInt16:
      act(std::uint16_t{});
      return true;
    case ScalarType::UInt32:
      act(std::uint32_t{});
      return true;
    case ScalarType::UInt64:
      act(std::uint64_t{});
      return true;
    default:
      return with_any(type, act);
  }
}

// The slices along one dimension of a row-major tensor.
template <typename T>
class Slices {
 public:
  Slices(const T* data, const Lines& lines) : data_(data), lines_(lines) {}

  bool equal(std::int64_t a, std::int64_t b) const {
    return each([&](std::int64_t start) {
             return data_[start + a * lines_.inner] == data_[start + b * lines_.inner] ? 0 : 1;
           }) == 0;
  }

  // Returns whether a slice is before another. NaN is greater than all numbers.
  bool less(std::int64_t a, std::int64_t b) const {
    return each([&](std::int64_t start) {
             const T one = data_[start + a * lines_.inner];
             const T other = data_[start + b * lines_.inner];
             if (one < other || (is_nan(other) && !is_nan(one))) return -1;
             return other < one || (is_nan(one) && !is_nan(other)) ? 1 : 0;
           }) < 0;
  }

  void copy(const std::vector<std::int64_t>& slices, T* to) const {
    for (std::int64_t outer = 0; outer < lines_.outer; ++outer) {
      for (const std::int64_t slice : slices) {
        to = std::copy_n(data_ + (outer * lines_.size + slice) * lines_.inner, lines_.inner, to);
      }
    }
  }

 private:
  // Returns the first result that is not 0 of a function of the elements' offsets.
  template <typename Function>
  int each(Function&& compare) const {
    for (std::int64_t outer = 0; outer < lines_.outer; ++outer) {
      for (std::int64_t inner = 0; inner < lines_.inner; ++inner) {
        const int found = compare(outer * lines_.size * lines_.inner + inner);
        if (found != 0) return found;
      }
    }
    return 0;
  }

  const T* data_;
  Lines lines_;
};

// Finds the distinct slices: the first of each, and their places and counts.
template <typename T>
std::vector<std::int64_t> distinct(const Slices<T>& slices, std::int64_t size, bool consecutive,
                                   std::vector<std::int64_t>& places, std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  if (!consecutive) {
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return slices.less(a, b); });
  }
  std::vector<std::int64_t> firsts;
  places.resize(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    if (i == 0 || !slices.equal(order[i - 1], order[i])) {
      firsts.push_back(order[i]);
      counts.push_back(0);
    }
    ++counts.back();
    places[order[i]] = static_cast<std::int64_t>(firsts.size()) - 1;
  }
  return firsts;
}

// Writes numbers in a shape to an output, which has no elements unless it was asked for.
bool write(const std::vector<std::int64_t>& numbers, const std::vector<executorch::aten::SizesType>& sizes, bool asked,
           Tensor& out) {
  if (!asked) return resize(out, {0});
  if (!resize(out, sizes)) return false;
  std::copy(numbers.begin(), numbers.end(), out.mutable_data_ptr<std::int64_t>());
  return true;
}

void run(KernelRuntimeContext& context, const Unique& unique) {
  const Tensor& self = unique.self;
  MB_CHECK(context, !unique.dimension || *unique.dimension >= 0, "dim: the input has no such dimension");
  Lines lines(self, unique.dimension.value_or(0));
  std::vector<executorch::aten::SizesType> sizes(self.sizes().begin(), self.sizes().end());
  std::vector<executorch::aten::SizesType> of_places = sizes;
  if (unique.dimension) {
    of_places = {static_cast<executorch::aten::SizesType>(lines.size)};
  } else {
    lines.size = self.numel();
    lines.outer = lines.inner = 1;
  }
  MB_CHECK(context, self.numel() > 0 || lines.size == 0, "expected slices with elements");
  MB_CHECK(context, unique.values.scalar_type() == self.scalar_type(), "out: expected the type of the input");
  MB_CHECK(context, unique.places.scalar_type() == ScalarType::Long && unique.numbers.scalar_type() == ScalarType::Long,
           "inverse and counts: expected int64");
  MB_CHECK(context, row_major(self) && row_major(unique.values) && row_major(unique.places),
           "expected row-major order");
  bool room = false;
  const bool known = with_ordered(self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const Slices<T> slices(self.const_data_ptr<T>(), lines);
    std::vector<std::int64_t> places;
    std::vector<std::int64_t> counts;
    const std::vector<std::int64_t> firsts = distinct(slices, lines.size, unique.consecutive, places, counts);
    const auto count = static_cast<executorch::aten::SizesType>(firsts.size());
    if (unique.dimension && !sizes.empty()) {
      sizes[static_cast<std::size_t>(*unique.dimension)] = count;
    } else {
      sizes = {count};
    }
    room = resize(unique.values, sizes) && write(places, of_places, unique.inverse, unique.places) &&
           write(counts, {count}, unique.counts, unique.numbers);
    if (room) slices.copy(firsts, unique.values.mutable_data_ptr<T>());
  });
  MB_CHECK(context, known, "self: expected numbers");
  MB_CHECK(context, room, "out: no room for the result");
}

void of_elements(KernelRuntimeContext& context, Arguments arguments) {
  run(context, {arguments[0]->toTensor(), std::nullopt, false, arguments[2]->toBool(), arguments[3]->toBool(),
                arguments[4]->toTensor(), arguments[5]->toTensor(), arguments[6]->toTensor()});
}

// Of slices, eager mode returns places and counts in any case.
void of_slices(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  run(context, {self, dimension_of(self, arguments[1]->toInt()), false, true, true, arguments[5]->toTensor(),
                arguments[6]->toTensor(), arguments[7]->toTensor()});
}

void of_neighbours(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const auto given = arguments[3]->toOptional<std::int64_t>();
  const auto dimension = given ? std::optional(dimension_of(self, *given)) : std::nullopt;
  run(context, {self, dimension, true, given || arguments[1]->toBool(), given || arguments[2]->toBool(),
                arguments[4]->toTensor(), arguments[5]->toTensor(), arguments[6]->toTensor()});
}

const Registration kElements("aten::_unique2.out", of_elements);
const Registration kSlices("aten::unique_dim.out", of_slices);
const Registration kNeighbours("aten::unique_consecutive.out", of_neighbours);

}  // namespace
}  // namespace modelbuild::kernels
