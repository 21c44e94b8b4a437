// aten::grid_sampler_3d and modelbuild::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int
// padding_mode, bool align_corners) -> Tensor: values of a volume, or of an image, at coordinates from -1 to 1.
// Coordinates that are NaN or infinite have the values that they have in eager mode, which differ between the two.
#include <algorithm>
#include <array>
#include <cmath>

#include "parallel.hpp"

namespace modelbuild::kernels {
namespace {

enum Interpolation : std::int64_t { kLinear, kNearest, kCubic };
enum Padding : std::int64_t { kZeros, kBorder, kReflection };

struct Sampling {
  std::int64_t interpolation;
  std::int64_t padding;
  bool align_corners;
  std::int64_t dimensions;
};

// An element that a value is computed from; -1 is a zero outside.
template <typename T>
struct Tap {
  std::int64_t offset;
  T weight;
};

// Up to N elements, in memory of the stack: a point is computed in a few nanoseconds.
template <typename T, std::size_t N>
struct Taps {  // NOLINT(cppcoreguidelines-pro-type-member-init): those below `count` are filled
  void add(std::int64_t offset, T weight) { taps[count++] = {offset, weight}; }
  const Tap<T>* begin() const { return taps.data(); }
  const Tap<T>* end() const { return taps.data() + count; }

  std::array<Tap<T>, N> taps;
  std::size_t count = 0;
};

// Those of an axis, and of a point: of all axes.
template <typename T>
using AxisTaps = Taps<T, 4>;
template <typename T>
using PointTaps = Taps<T, 16>;

// Mirrors a coordinate at two borders until it is between them. Far outside, where a type has no fractions, the result
// is that of eager mode's formula.
template <typename T>
T reflected(T at, T low, T high, bool of_image) {
  if (low == high) return 0;
  const T span = high - low;
  at = std::abs(at - low);
  if (of_image) {
    const T rest = at - std::trunc(at / (2 * span)) * (2 * span);
    return std::min(rest, 2 * span - rest) + low;
  }
  const T rest = std::fmod(at, span);
  return std::fmod(std::floor(at / span), static_cast<T>(2)) == 0 ? low + rest : high - rest;
}

// Moves a pixel's coordinate into an axis of `size` pixels, as the padding says.
template <typename T>
T padded(T at, std::int64_t size, const Sampling& how) {
  const T last = static_cast<T>(size - 1);
  if (how.padding == kReflection) {
    const T half = how.align_corners ? static_cast<T>(0) : static_cast<T>(0.5);
    at = reflected<T>(at, -half, last + half, how.dimensions == 2);
  }
  if (how.padding == kZeros) return at;
  // NaN becomes the first pixel of an image's axis, and the last one of a volume's.
  return how.dimensions == 2 ? std::min(std::max<T>(0, at), last) : std::min(last, std::max<T>(at, 0));
}

// Returns the index of a coordinate without a fraction, or -1 outside.
template <typename T>
std::int64_t index_of(T at, std::int64_t size) {
  return at >= 0 && at < static_cast<T>(size) ? static_cast<std::int64_t>(at) : -1;
}

// Keys' kernel with a = -0.75, for four pixels of which the second one is `at` before the point.
template <typename T>
void cubic_weights(T at, T (&weights)[4]) {
  constexpr T kA = static_cast<T>(-0.75);
  const auto near = [](T x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](T x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  weights[0] = far(at + 1);
  weights[1] = near(at);
  weights[2] = near(1 - at);
  weights[3] = far(2 - at);
}

// Adds the indices and weights of the pixels of one axis for a grid's coordinate.
template <typename T>
void add_taps(T coordinate, std::int64_t size, const Sampling& how, AxisTaps<T>& taps) {
  const T count = static_cast<T>(size);
  T at = how.align_corners ? (coordinate + 1) / 2 * (count - 1) : ((coordinate + 1) * count - 1) / 2;
  if (how.interpolation == kCubic) {
    const T low = std::floor(at);
    T weights[4];
    cubic_weights(at - low, weights);
    for (int i = 0; i < 4; ++i) {
      taps.add(index_of(std::nearbyint(padded(low + static_cast<T>(i - 1), size, how)), size), weights[i]);
    }
    return;
  }
  at = padded(at, size, how);
  if (how.dimensions == 3 && !std::isfinite(at)) at = -100;
  if (how.interpolation == kNearest) {
    taps.add(index_of(std::nearbyint(at), size), 1);
    return;
  }
  const T low = std::floor(at);
  taps.add(index_of(low, size), 1 - (at - low));
  taps.add(index_of(low + 1, size), at - low);
}

// Stores the elements and weights of a point.
template <typename T>
void find_point(const T* coordinates, const Tensor& input, const Sampling& how, PointTaps<T>& point) {
  AxisTaps<T> axes[3];
  std::int64_t strides[3] = {};
  for (std::int64_t d = 0; d < how.dimensions; ++d) {
    strides[d] = input.strides()[static_cast<std::size_t>(d + 2)];
    add_taps(coordinates[how.dimensions - 1 - d], input.size(d + 2), how, axes[d]);
  }
  if (how.dimensions == 2) axes[2].add(0, 1);
  point.count = 0;
  for (const Tap<T>& one : axes[0]) {
    for (const Tap<T>& two : axes[1]) {
      for (const Tap<T>& three : axes[2]) {
        const bool outside = one.offset < 0 || two.offset < 0 || three.offset < 0;
        const std::int64_t offset = one.offset * strides[0] + two.offset * strides[1] + three.offset * strides[2];
        point.add(outside ? -1 : offset, one.weight * two.weight * three.weight);
      }
    }
  }
}

// Fills the output. Returns whether the threads ran.
template <typename T>
bool sample(const Tensor& input, const Tensor& grid, const Sampling& how, Tensor& out) {
  constexpr std::int64_t kBlock = 64;  // whose elements and weights remain in the processor's first cache
  constexpr std::int64_t kGrain = 16;  // blocks, which take some 50 us
  const std::int64_t points = grid.numel() / std::max<std::int64_t>(grid.size(0) * how.dimensions, 1);
  const std::int64_t blocks = (points + kBlock - 1) / kBlock;
  return each_of(input.size(0) * blocks, kGrain, [&](std::int64_t number) {
    const std::int64_t n = number / blocks;
    const std::int64_t start = number % blocks * kBlock;
    const std::int64_t count = std::min(kBlock, points - start);
    const T* from = grid.const_data_ptr<T>() + (n * points + start) * how.dimensions;
    std::array<PointTaps<T>, kBlock> block;
    for (std::int64_t i = 0; i < count; ++i) find_point(from + i * how.dimensions, input, how, block[i]);
    for (std::int64_t channel = 0; channel < input.size(1); ++channel) {
      const T* plane = input.const_data_ptr<T>() + n * input.strides()[0] + channel * input.strides()[1];
      T* to = out.mutable_data_ptr<T>() + (n * input.size(1) + channel) * points + start;
      for (std::int64_t i = 0; i < count; ++i) {
        T sum = 0;
        for (const Tap<T>& tap : block[i]) sum += tap.weight * (tap.offset < 0 ? 0 : plane[tap.offset]);
        to[i] = sum;
      }
    }
  });
}

void grid_sampler(KernelRuntimeContext& context, Arguments arguments, std::int64_t dimensions) {
  const Tensor& input = arguments[0]->toTensor();
  const Tensor& grid = arguments[1]->toTensor();
  const Sampling how{arguments[2]->toInt(), arguments[3]->toInt(), arguments[4]->toBool(), dimensions};
  Tensor& out = arguments[5]->toTensor();
  MB_CHECK(context,
           input.dim() == dimensions + 2 && grid.dim() == input.dim() && grid.size(dimensions + 1) == dimensions,
           "grid: expected coordinates for the dimensions of the input");
  MB_CHECK(context, grid.size(0) == input.size(0), "grid: expected one for each image or volume");
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    MB_CHECK(context, input.size(d) > 0, "input: expected no empty image or volume");
  }
  MB_CHECK(context, how.interpolation >= kLinear && how.interpolation <= (dimensions == 2 ? kCubic : kNearest),
           "expected linear or nearest interpolation, or cubic interpolation of images");
  MB_CHECK(context, how.padding >= kZeros && how.padding <= kReflection,
           "expected padding with zeros, border or reflection");
  MB_CHECK(context, grid.scalar_type() == input.scalar_type() && out.scalar_type() == input.scalar_type(),
           "grid: expected the type of the input");
  Sizes sizes{input.sizes()[0], input.sizes()[1]};
  sizes.insert(sizes.end(), grid.sizes().begin() + 1, grid.sizes().end() - 1);
  MB_CHECK(context, resize(out, sizes), "out: no room for the result");
  MB_CHECK(context, row_major(grid) && row_major(out), "expected row-major order");
  bool computed = true;
  const bool known =
      with_float(input.scalar_type(), [&](auto type) { computed = sample<decltype(type)>(input, grid, how, out); });
  MB_CHECK(context, known, "input: expected float32 or float64");
  MB_CHECK(context, computed, "the threads failed");
}

const Registration kVolumes("aten::grid_sampler_3d.out", [](KernelRuntimeContext& context, Arguments arguments) {
  grid_sampler(context, arguments, 3);
});
const Registration kImages("modelbuild::grid_sampler_2d.out", [](KernelRuntimeContext& context, Arguments arguments) {
  grid_sampler(context, arguments, 2);
});

}  // namespace
}  // namespace modelbuild::kernels
