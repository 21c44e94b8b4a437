// aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0,
//                               int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor),
// aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False,
//                  bool count_include_pad=True, int? divisor_override=None) -> Tensor, and
// aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor).
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "parallel.hpp"

namespace modelbuild::kernels {
namespace {

using Ints = executorch::aten::ArrayRef<std::int64_t>;

// The windows along one dimension.
struct Axis {
  std::int64_t input = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t output = 0;

  void set_output(bool ceil) {
    const std::int64_t room = input + 2 * padding - dilation * (kernel - 1) - 1 + (ceil ? stride - 1 : 0);
    output = room < 0 ? 0 : room / stride + 1;
    // The last window begins inside the input or the padding before it.
    if (ceil && (output - 1) * stride >= input + padding) --output;
  }
};

using Axes = std::array<Axis, 3>;

// Returns a number of a list for a dimension: lists may have one for all.
std::int64_t of(Ints list, std::size_t index, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[list.size() == 1 ? 0 : index];
}

std::optional<Axes> axes_of(const Tensor& self, Ints kernel, Ints stride, Ints padding, Ints dilation, bool ceil) {
  Axes axes;
  if (self.dim() != 4 && self.dim() != 5) return {};
  for (const Ints list : {kernel, stride, padding, dilation}) {
    if (list.size() > 1 && list.size() != axes.size()) return {};
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = axes[i];
    axis.input = self.size(self.dim() - 3 + static_cast<std::int64_t>(i));
    axis.kernel = of(kernel, i, 0);
    axis.stride = of(stride, i, axis.kernel);
    axis.padding = of(padding, i, 0);
    axis.dilation = of(dilation, i, 1);
    if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.padding < 0) return {};
    axis.set_output(ceil);
    if (axis.output < 1) return {};
  }
  return axes;
}

std::vector<executorch::aten::SizesType> sizes_of(const Tensor& self, const Axes& axes) {
  std::vector<executorch::aten::SizesType> sizes(self.sizes().begin(), self.sizes().end());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    sizes[sizes.size() - 3 + i] = static_cast<executorch::aten::SizesType>(axes[i].output);
  }
  return sizes;
}

// Calls a function with the number of each window, where its plane begins, and its coordinates in the output; on all
// threads. Returns whether they ran.
template <typename Function>
bool each_window(const Tensor& self, const Axes& axes, Function&& act) {
  const std::int64_t plane = axes[0].input * axes[1].input * axes[2].input;
  const std::int64_t planes = plane == 0 ? 0 : self.numel() / plane;
  constexpr std::int64_t kGrain = 4096;  // windows
  const std::int64_t windows = axes[0].output * axes[1].output * axes[2].output;
  return each_of(planes, kGrain / windows, [&](std::int64_t p) {
    std::int64_t number = p * windows;
    for (std::int64_t t = 0; t < axes[0].output; ++t) {
      for (std::int64_t y = 0; y < axes[1].output; ++y) {
        for (std::int64_t x = 0; x < axes[2].output; ++x) {
          act(number++, p * plane, std::array<std::int64_t, 3>{t, y, x});
        }
      }
    }
  });
}

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// The greatest value of ranges of a plane; NaN is greater than all numbers. `step` are distances within the ranges.
template <typename T>
void greatest(const T* plane, const std::array<Range, 3>& ranges, const std::array<std::int64_t, 3>& step,
              std::int64_t rows, std::int64_t columns, T& value, std::int64_t& index) {
  const auto at = [&](std::int64_t t, std::int64_t y, std::int64_t x) { return (t * rows + y) * columns + x; };
  index = at(ranges[0].begin, ranges[1].begin, ranges[2].begin);
  value = plane[index];
  for (std::int64_t t = ranges[0].begin; t < ranges[0].end; t += step[0]) {
    for (std::int64_t y = ranges[1].begin; y < ranges[1].end; y += step[1]) {
      for (std::int64_t x = ranges[2].begin; x < ranges[2].end; x += step[2]) {
        const T found = plane[at(t, y, x)];
        if (found > value || is_nan(found)) {
          value = found;
          index = at(t, y, x);
        }
      }
    }
  }
}

void max_pool3d(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  Tensor& out = arguments[6]->toTensor();
  Tensor& indices = arguments[7]->toTensor();
  const auto found = axes_of(self, arguments[1]->toIntList(), arguments[2]->toIntList(), arguments[3]->toIntList(),
                             arguments[4]->toIntList(), arguments[5]->toBool());
  MB_CHECK(context, found, "expected an input of 4 or 5 dimensions, larger than the kernel, and positive numbers");
  const Axes& axes = *found;
  for (const Axis& axis : axes) {
    MB_CHECK(context, axis.padding <= axis.kernel / 2, "padding: expected at most half of the kernel's size");
  }
  MB_CHECK(context, out.scalar_type() == self.scalar_type() && indices.scalar_type() == ScalarType::Long,
           "out: expected the type of the input, and int64");
  const auto sizes = sizes_of(self, axes);
  MB_CHECK(context, resize(out, sizes) && resize(indices, sizes), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(out) && row_major(indices), "expected row-major order");
  bool computed = true;
  const bool known = with_any(self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    computed =
        each_window(self, axes, [&](std::int64_t number, std::int64_t start, const std::array<std::int64_t, 3>& place) {
          std::array<Range, 3> ranges{};
          for (std::size_t i = 0; i < axes.size(); ++i) {
            const Axis& axis = axes[i];
            std::int64_t begin = place[i] * axis.stride - axis.padding;
            const std::int64_t end = std::min(begin + (axis.kernel - 1) * axis.dilation + 1, axis.input);
            while (begin < 0) begin += axis.dilation;
            ranges[i] = {begin, end};
          }
          greatest(self.const_data_ptr<T>() + start, ranges, {axes[0].dilation, axes[1].dilation, axes[2].dilation},
                   axes[1].input, axes[2].input, out.mutable_data_ptr<T>()[number],
                   indices.mutable_data_ptr<std::int64_t>()[number]);
        });
  });
  MB_CHECK(context, known, "self: expected numbers");
  MB_CHECK(context, computed, "the threads failed");
}

void avg_pool3d(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const bool padded = arguments[5]->toBool();
  const auto divisor = arguments[6]->toOptional<std::int64_t>();
  Tensor& out = arguments[7]->toTensor();
  const auto found = axes_of(self, arguments[1]->toIntList(), arguments[2]->toIntList(), arguments[3]->toIntList(), {},
                             arguments[4]->toBool());
  MB_CHECK(context, found, "expected an input of 4 or 5 dimensions, larger than the kernel, and positive numbers");
  MB_CHECK(context, !divisor || *divisor != 0, "divisor_override: expected another number than 0");
  const Axes& axes = *found;
  MB_CHECK(context, out.scalar_type() == self.scalar_type(), "out: expected the type of the input");
  MB_CHECK(context, resize(out, sizes_of(self, axes)), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(out), "expected row-major order");
  bool computed = true;
  const bool known = with_any(self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    computed =
        each_window(self, axes, [&](std::int64_t number, std::int64_t start, const std::array<std::int64_t, 3>& place) {
          std::array<Range, 3> ranges{};
          std::int64_t whole = 1;
          std::int64_t inside = 1;
          for (std::size_t i = 0; i < axes.size(); ++i) {
            const Axis& axis = axes[i];
            const std::int64_t begin = place[i] * axis.stride - axis.padding;
            const std::int64_t end = std::min(begin + axis.kernel, axis.input + axis.padding);
            whole *= end - begin;
            ranges[i] = {std::max<std::int64_t>(begin, 0), std::min(end, axis.input)};
            inside *= std::max<std::int64_t>(ranges[i].end - ranges[i].begin, 0);
          }
          std::conditional_t<std::is_integral_v<T>, std::int64_t, Sum<T>> sum = 0;
          for (std::int64_t t = ranges[0].begin; t < ranges[0].end; ++t) {
            for (std::int64_t y = ranges[1].begin; y < ranges[1].end; ++y) {
              const T* row = self.const_data_ptr<T>() + start + (t * axes[1].input + y) * axes[2].input;
              for (std::int64_t x = ranges[2].begin; x < ranges[2].end; ++x) sum += static_cast<decltype(sum)>(row[x]);
            }
          }
          const std::int64_t count = divisor ? *divisor : padded ? whole : inside;
          out.mutable_data_ptr<T>()[number] =
              inside == 0 ? T{0} : static_cast<T>(sum / static_cast<decltype(sum)>(count));
        });
  });
  MB_CHECK(context, known, "self: expected numbers");
  MB_CHECK(context, computed, "the threads failed");
}

void adaptive_max_pool2d(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  const Ints wanted = arguments[1]->toIntList();
  Tensor& out = arguments[2]->toTensor();
  Tensor& indices = arguments[3]->toTensor();
  MB_CHECK(context, self.dim() == 3 || self.dim() == 4, "self: expected 3 or 4 dimensions");
  MB_CHECK(context, wanted.size() == 2 && wanted[0] > 0 && wanted[1] > 0, "output_size: expected two sizes");
  const std::int64_t rows = self.size(self.dim() - 2);
  const std::int64_t columns = self.size(self.dim() - 1);
  MB_CHECK(context, rows > 0 && columns > 0, "self: expected pictures that are not empty");
  std::vector<executorch::aten::SizesType> sizes(self.sizes().begin(), self.sizes().end());
  for (std::size_t i = 0; i < 2; ++i) {
    sizes[sizes.size() - 2 + i] = static_cast<executorch::aten::SizesType>(wanted[i]);
  }
  MB_CHECK(context, out.scalar_type() == self.scalar_type() && indices.scalar_type() == ScalarType::Long,
           "out: expected the type of the input, and int64");
  MB_CHECK(context, resize(out, sizes) && resize(indices, sizes), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(out) && row_major(indices), "expected row-major order");
  const auto range = [](std::int64_t place, std::int64_t parts, std::int64_t size) {
    return Range{place * size / parts, ((place + 1) * size + parts - 1) / parts};
  };
  const bool known = with_any(self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    std::int64_t number = 0;
    for (std::int64_t plane = 0; plane < self.numel(); plane += rows * columns) {
      for (std::int64_t y = 0; y < wanted[0]; ++y) {
        for (std::int64_t x = 0; x < wanted[1]; ++x, ++number) {
          const std::array<Range, 3> ranges{Range{0, 1}, range(y, wanted[0], rows), range(x, wanted[1], columns)};
          greatest(self.const_data_ptr<T>() + plane, ranges, {1, 1, 1}, rows, columns,
                   out.mutable_data_ptr<T>()[number], indices.mutable_data_ptr<std::int64_t>()[number]);
        }
      }
    }
  });
  MB_CHECK(context, known, "self: expected numbers");
}

const Registration kMaxPool3d("aten::max_pool3d_with_indices.out", max_pool3d);
const Registration kAvgPool3d("aten::avg_pool3d.out", avg_pool3d);
const Registration kAdaptiveMaxPool2d("aten::adaptive_max_pool2d.out", adaptive_max_pool2d);

}  // namespace
}  // namespace modelbuild::kernels
