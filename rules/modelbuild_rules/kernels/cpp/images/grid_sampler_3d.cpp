// aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
// -> Tensor: values of a volume at coordinates from -1 to 1.
#include <algorithm>
#include <cmath>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

enum Interpolation : std::int64_t { kLinear, kNearest };
enum Padding : std::int64_t { kZeros, kBorder, kReflection };

// Mirrors a coordinate at two borders until it is between them.
template <typename T>
T reflected(T at, T low, T high) {
  if (low == high) return 0;
  const T span = high - low;
  at = std::abs(at - low);
  const T rest = std::fmod(at, span);
  return std::fmod(std::floor(at / span), static_cast<T>(2)) == 0 ? low + rest : high - rest;
}

// Returns the pixel coordinate of a grid's coordinate.
template <typename T>
T pixel(T at, std::int64_t size, std::int64_t padding, bool align_corners) {
  const T count = static_cast<T>(size);
  T found = align_corners ? (at + 1) / 2 * (count - 1) : ((at + 1) * count - 1) / 2;
  if (padding == kReflection) {
    found = align_corners ? reflected<T>(found, 0, count - 1)
                          : reflected<T>(found, static_cast<T>(-0.5), count - static_cast<T>(0.5));
  }
  if (padding != kZeros) found = std::min(std::max<T>(found, 0), count - 1);
  // A number that is no coordinate is outside, as in eager mode.
  return std::isfinite(found) && std::abs(found) < static_cast<T>(1 << 30) ? found : static_cast<T>(-100);
}

template <typename T>
T value_at(const T* plane, const Tensor& input, const T (&at)[3], std::int64_t interpolation) {
  const auto voxel = [&](const std::int64_t (&place)[3]) -> T {
    std::int64_t offset = 0;
    for (int d = 0; d < 3; ++d) {
      if (place[d] < 0 || place[d] >= input.size(d + 2)) return 0;
      offset += place[d] * input.strides()[d + 2];
    }
    return plane[offset];
  };
  if (interpolation == kNearest) {
    return voxel({static_cast<std::int64_t>(std::nearbyint(at[0])), static_cast<std::int64_t>(std::nearbyint(at[1])),
                  static_cast<std::int64_t>(std::nearbyint(at[2]))});
  }
  T sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    std::int64_t place[3];
    T weight = 1;
    for (int d = 0; d < 3; ++d) {
      const bool upper = (corner >> (2 - d) & 1) != 0;
      const T low = std::floor(at[d]);
      place[d] = static_cast<std::int64_t>(low) + (upper ? 1 : 0);
      weight *= upper ? at[d] - low : 1 - (at[d] - low);
    }
    sum += weight * voxel(place);
  }
  return sum;
}

void grid_sampler_3d(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& input = arguments[0]->toTensor();
  const Tensor& grid = arguments[1]->toTensor();
  const std::int64_t interpolation = arguments[2]->toInt();
  const std::int64_t padding = arguments[3]->toInt();
  const bool align_corners = arguments[4]->toBool();
  Tensor& out = arguments[5]->toTensor();
  MB_CHECK(context, input.dim() == 5 && grid.dim() == 5 && grid.size(4) == 3, "grid: expected n x d x h x w x 3");
  MB_CHECK(context, grid.size(0) == input.size(0), "grid: expected one for each volume");
  MB_CHECK(context, input.size(2) > 0 && input.size(3) > 0 && input.size(4) > 0, "input: expected no empty volume");
  MB_CHECK(context, interpolation == kLinear || interpolation == kNearest, "expected bilinear or nearest");
  MB_CHECK(context, padding >= kZeros && padding <= kReflection, "expected padding with zeros, border or reflection");
  MB_CHECK(context, grid.scalar_type() == input.scalar_type() && out.scalar_type() == input.scalar_type(),
           "grid: expected the type of the input");
  const auto size = [](std::int64_t value) { return static_cast<int>(value); };
  MB_CHECK(context,
           resize(out, {size(input.size(0)), size(input.size(1)), size(grid.size(1)), size(grid.size(2)),
                        size(grid.size(3))}),
           "out: no room for the result");
  MB_CHECK(context, row_major(grid) && row_major(out), "expected row-major order");
  const std::int64_t points = grid.size(1) * grid.size(2) * grid.size(3);
  const bool known = with_float(input.scalar_type(), [&](auto type) {
    using T = decltype(type);
    for (std::int64_t n = 0; n < input.size(0); ++n) {
      for (std::int64_t point = 0; point < points; ++point) {
        const T* from = grid.const_data_ptr<T>() + 3 * (n * points + point);
        T at[3];
        for (int d = 0; d < 3; ++d) at[d] = pixel(from[2 - d], input.size(d + 2), padding, align_corners);
        for (std::int64_t channel = 0; channel < input.size(1); ++channel) {
          const T* plane = input.const_data_ptr<T>() + n * input.strides()[0] + channel * input.strides()[1];
          out.mutable_data_ptr<T>()[(n * input.size(1) + channel) * points + point] =
              value_at(plane, input, at, interpolation);
        }
      }
    }
  });
  MB_CHECK(context, known, "input: expected float32 or float64");
}

const Registration kRegistered("aten::grid_sampler_3d.out", grid_sampler_3d);

}  // namespace
}  // namespace modelbuild::kernels
