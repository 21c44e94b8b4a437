// modelbuild_kernels::bicubic_peaks(Tensor maps, Tensor heights, Tensor widths) -> Tensor: the column, row and value of
// the greatest pixel of each map, resized by bicubic interpolation to the height and width of its region.
#include <cmath>

#include "parallel.hpp"

namespace modelbuild::kernels {
namespace {

constexpr std::int64_t kLongest = 1 << 15;  // bounds the memory for a resized map; longer than sides of pictures

// The four pixels of a map's row or column that a pixel of the resized map depends on, and their weights.
template <typename T>
struct Cubic {
  Cubic(std::int64_t pixel, std::int64_t from, std::int64_t to) {
    constexpr T half = static_cast<T>(0.5);
    const T at = static_cast<T>(from) / static_cast<T>(to) * (static_cast<T>(pixel) + half) - half;
    const T low = std::floor(at);
    const T t = at - low;
    const T given[4] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int i = 0; i < 4; ++i) {
      places[i] = std::clamp<std::int64_t>(static_cast<std::int64_t>(low) - 1 + i, 0, from - 1);
      weights[i] = given[i];
    }
  }

  // The weight of a pixel at a distance of up to 1, and from 1 to 2.
  static T near(T x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; }
  static T far(T x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; }

  static constexpr T kA = static_cast<T>(-0.75);
  std::int64_t places[4] = {};
  T weights[4] = {};
};

template <typename T>
std::vector<Cubic<T>> cubics(std::int64_t from, std::int64_t to) {
  std::vector<Cubic<T>> found;
  found.reserve(static_cast<std::size_t>(to));
  for (std::int64_t pixel = 0; pixel < to; ++pixel) found.emplace_back(pixel, from, to);
  return found;
}

// Writes a map, resized to the width of its region, row by row.
template <typename T>
void stretch(const T* map, std::int64_t height, std::int64_t width, const std::vector<Cubic<T>>& columns, T* to) {
  for (std::int64_t row = 0; row < height; ++row, map += width) {
    for (const Cubic<T>& c : columns) {
      *to++ = map[c.places[0]] * c.weights[0] + map[c.places[1]] * c.weights[1] + map[c.places[2]] * c.weights[2] +
              map[c.places[3]] * c.weights[3];
    }
  }
}

// Writes a row of the resized map.
template <typename T>
void mix(const std::vector<T>& stretched, const Cubic<T>& row, std::vector<T>& line) {
  const std::size_t width = line.size();
  const T* from[4];
  for (int i = 0; i < 4; ++i) from[i] = stretched.data() + static_cast<std::size_t>(row.places[i]) * width;
  for (std::size_t x = 0; x < width; ++x) {
    line[x] = from[0][x] * row.weights[0] + from[1][x] * row.weights[1] + from[2][x] * row.weights[2] +
              from[3][x] * row.weights[3];
  }
}

// Returns whether a value is the greatest, as argmax compares it with an earlier one.
template <typename T>
bool exceeds(T value, T earlier) {
  return value > earlier || (is_nan(value) && !is_nan(earlier));
}

// Writes the column, row and value of the peak of each map of a region.
template <typename T>
void find_peaks(const T* maps, const Tensor& all, std::int64_t height, std::int64_t width, T* to) {
  const std::int64_t rows_of_map = all.size(2);
  const std::int64_t columns_of_map = all.size(3);
  const std::vector<Cubic<T>> rows = cubics<T>(rows_of_map, height);
  const std::vector<Cubic<T>> columns = cubics<T>(columns_of_map, width);
  std::vector<T> stretched(static_cast<std::size_t>(rows_of_map * width));
  std::vector<T> line(static_cast<std::size_t>(width));
  for (std::int64_t n = 0; n < all.size(1); ++n, maps += rows_of_map * columns_of_map, to += 3) {
    stretch(maps, rows_of_map, columns_of_map, columns, stretched.data());
    for (std::size_t y = 0; y < rows.size(); ++y) {
      mix(stretched, rows[y], line);
      if (y == 0) to[0] = to[1] = 0, to[2] = line[0];
      for (std::size_t x = 0; x < line.size(); ++x) {
        if (exceeds(line[x], to[2])) to[0] = static_cast<T>(x), to[1] = static_cast<T>(y), to[2] = line[x];
      }
    }
  }
}

// Returns whether a tensor has the length in pixels of one side of each region.
bool are_sides(const Tensor& sides, const Tensor& maps) {
  if (sides.dim() != 1 || sides.size(0) != maps.size(0) || sides.scalar_type() != ScalarType::Long) return false;
  const std::int64_t* from = sides.const_data_ptr<std::int64_t>();
  return std::all_of(from, from + sides.numel(), [](std::int64_t side) { return side >= 1 && side <= kLongest; });
}

void bicubic_peaks(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& maps = arguments[0]->toTensor();
  const Tensor& heights = arguments[1]->toTensor();
  const Tensor& widths = arguments[2]->toTensor();
  Tensor& out = arguments[3]->toTensor();
  MB_CHECK(context, maps.dim() == 4 && row_major(maps), "maps: expected n x maps x height x width in row-major order");
  MB_CHECK(context, maps.size(2) > 0 && maps.size(3) > 0, "maps: expected a height and width of 1 or more");
  MB_CHECK(context, are_sides(heights, maps), "heights: expected an int64 from 1 to 32768 for each region");
  MB_CHECK(context, are_sides(widths, maps), "widths: expected an int64 from 1 to 32768 for each region");
  MB_CHECK(context, out.dim() == 3 && out.scalar_type() == maps.scalar_type(), "out: expected the type of maps");
  const auto regions = static_cast<int>(maps.size(0));
  MB_CHECK(context, resize(out, {regions, static_cast<int>(maps.size(1)), 3}), "out: no room for %d regions", regions);
  MB_CHECK(context, row_major(out), "out: expected row-major order");
  bool computed = true;
  const bool known = with_float(maps.scalar_type(), [&](auto type) {
    using T = decltype(type);
    computed = each_of(regions, 1, [&](std::int64_t n) {
      const T* from = maps.const_data_ptr<T>() + n * (maps.numel() / regions);
      find_peaks(from, maps, heights.const_data_ptr<std::int64_t>()[n], widths.const_data_ptr<std::int64_t>()[n],
                 out.mutable_data_ptr<T>() + n * maps.size(1) * 3);
    });
  });
  MB_CHECK(context, known, "maps: expected float32 or float64");
  MB_CHECK(context, computed, "the threads failed");
}

const Registration kRegistered("modelbuild_kernels::bicubic_peaks.out", bicubic_peaks);

}  // namespace
}  // namespace modelbuild::kernels
