// aten::upsample_bilinear2d.vec(Tensor input, int[]? output_size, bool align_corners, float[]? scale_factors) ->
// Tensor. Sizes, coordinates and the order of sums are ATen's (native/UpSample.h, native/cpu/UpSampleKernel.cpp): rows
// are interpolated first, each once, and then between rows.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/faster.hpp"

namespace modelbuild::kernels {
namespace {

// The two elements that a value is between, and their weights.
struct Between {
  std::int64_t low;
  std::int64_t high;
  float low_weight;
  float high_weight;
};

using Axis = std::vector<Between>;

// The distance of results along an axis, in elements. The factor is 0 if only the sizes are given.
float scale_of(std::int64_t size, std::int64_t wanted, bool align_corners, double factor) {
  if (align_corners) return wanted > 1 ? static_cast<float>(size - 1) / static_cast<float>(wanted - 1) : 0;
  if (factor > 0) return static_cast<float>(1 / factor);
  return static_cast<float>(size) / static_cast<float>(wanted);
}

Axis axis_of(std::int64_t size, std::int64_t wanted, bool align_corners, double factor) {
  const float scale = scale_of(size, wanted, align_corners, factor);
  const float half = align_corners ? 0 : static_cast<float>(0.5);
  Axis axis;
  for (std::int64_t i = 0; i < wanted; ++i) {
    if (size == wanted) {
      axis.push_back({i, i, 1, 0});  // NaN for an infinity, as in eager mode
      continue;
    }
    const float at = std::max<float>(scale * (static_cast<float>(i) + half) - half, 0);
    const auto low = static_cast<std::int64_t>(std::min(at, static_cast<float>(size - 1)));
    const float share = std::clamp<float>(at - static_cast<float>(low), 0, 1);
    axis.push_back({low, std::min(low + 1, size - 1), 1 - share, share});
  }
  return axis;
}

class Resizing {
 public:
  Resizing(const Tensor& input, Tensor& out, bool align_corners, double rows, double columns)
      : input_(input.const_data_ptr<float>()),
        out_(out.mutable_data_ptr<float>()),
        input_height_(input.size(2)),
        input_width_(input.size(3)),
        rows_(axis_of(input_height_, out.size(2), align_corners, rows)),
        columns_(axis_of(input_width_, out.size(3), align_corners, columns)) {}

  // Computes rows of the result, counted over all pictures and channels.
  void compute(std::int64_t from, std::int64_t until) const {
    const auto height = static_cast<std::int64_t>(rows_.size());
    const std::size_t width = columns_.size();
    std::array<Line, 2> lines{Line(width), Line(width)};
    float* to = out_ + from * static_cast<std::int64_t>(width);
    for (std::int64_t row = from; row < until; ++row) {
      const Between& between = rows_[static_cast<std::size_t>(row % height)];
      const std::int64_t first = row / height * input_height_;
      const float* low = line(lines, first + between.low);
      const float* high = line(lines, first + between.high);
      for (std::size_t x = 0; x < width; ++x) *to++ = between.low_weight * low[x] + between.high_weight * high[x];
    }
  }

 private:
  // A row of the input, interpolated along its columns.
  struct Line {
    explicit Line(std::size_t width) : values(width) {}

    std::int64_t row = -1;
    std::vector<float> values;
  };

  // Returns an interpolated row. Rows only increase, so the lower of two is not needed again.
  const float* line(std::array<Line, 2>& lines, std::int64_t row) const {
    for (const Line& each : lines) {
      if (each.row == row) return each.values.data();
    }
    Line& lower = lines[0].row < lines[1].row ? lines[0] : lines[1];
    lower.row = row;
    const float* from = input_ + row * input_width_;
    for (std::size_t x = 0; x < columns_.size(); ++x) {
      const Between& between = columns_[x];
      lower.values[x] = between.low_weight * from[between.low] + between.high_weight * from[between.high];
    }
    return lower.values.data();
  }

  const float* input_;
  float* out_;
  std::int64_t input_height_;
  std::int64_t input_width_;
  Axis rows_;
  Axis columns_;
};

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// Returns the factors of the height and of the width; zeros if the arguments give none.
std::array<double, 2> factors_of(const EValue& argument) {
  if (argument.isNone() || argument.toDoubleList().size() != 2) return {};
  return {argument.toDoubleList()[0], argument.toDoubleList()[1]};
}

// Returns the height and the width of the result; zeros if the arguments give none.
std::array<std::int64_t, 2> wanted_sizes(const Tensor& input, const EValue& sizes, std::array<double, 2> factors) {
  if (!sizes.isNone() && sizes.toIntList().size() == 2) return {sizes.toIntList()[0], sizes.toIntList()[1]};
  std::array<std::int64_t, 2> wanted{};
  for (std::size_t i = 0; i < 2; ++i) {
    const double size = static_cast<double>(input.sizes()[i + 2]) * factors[i];
    if (size > 0 && size < static_cast<double>(kMost)) wanted[i] = static_cast<std::int64_t>(size);
  }
  return wanted;
}

void upsample_bilinear2d(KernelRuntimeContext& context, Arguments arguments) {
  constexpr std::int64_t kGrain = 32768;  // elements of the result that are worth another thread
  const Tensor& input = arguments[0]->toTensor();
  const bool align_corners = arguments[2]->toBool();
  const auto factors = factors_of(*arguments[3]);
  Tensor& out = arguments[4]->toTensor();
  const auto wanted = wanted_sizes(input, *arguments[1], factors);
  for (std::size_t i = 0; i < 2; ++i) {
    MB_CHECK(context, input.sizes()[i + 2] > 0 && wanted[i] > 0 && wanted[i] <= kMost, "expected no empty picture");
  }
  using Size = Sizes::value_type;
  const Sizes sizes{input.sizes()[0], input.sizes()[1], static_cast<Size>(wanted[0]), static_cast<Size>(wanted[1])};
  MB_CHECK(context, resize(out, sizes), "out: no room for the result");
  const Resizing resizing(input, out, align_corners, factors[0], factors[1]);
  const auto rows = [&](std::int64_t from, std::int64_t until) { resizing.compute(from, until); };
  const std::int64_t count = input.size(0) * input.size(1) * wanted[0];
  MB_CHECK(context, parallel_for(0, count, std::max<std::int64_t>(kGrain / wanted[1], 1), rows), "the threads failed");
}

const Faster kBilinear("aten::upsample_bilinear2d.vec_out", "v1/6;0,1,2,3|6;0,1,2,3|6;0,1,2,3", upsample_bilinear2d);

}  // namespace
}  // namespace modelbuild::kernels
