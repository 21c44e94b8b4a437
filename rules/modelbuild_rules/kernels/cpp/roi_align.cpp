// torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width,
// int sampling_ratio, bool aligned) -> Tensor: the mean of bilinear samples in each bin of each region.
#include <algorithm>
#include <cmath>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

// A sample between two neighbours of a row or column: their positions, and the weight of the second.
template <typename T>
struct Sample {
  bool inside = false;
  std::int64_t low = 0;
  std::int64_t high = 0;
  T weight = 0;
};

// Returns the sample at a coordinate; up to one pixel outside, the edge is repeated.
template <typename T>
Sample<T> sample(T at, std::int64_t size) {
  if (!(at >= -1 && at <= static_cast<T>(size)) || size == 0) return {};
  at = std::max<T>(at, 0);
  const auto low = static_cast<std::int64_t>(at);
  if (low >= size - 1) return {true, size - 1, size - 1, 0};
  return {true, low, low + 1, at - static_cast<T>(low)};
}

// The bins of a region along one dimension, and the number of samples in each.
template <typename T>
struct Bins {
  Bins(T first, T last, T scale, bool aligned, std::int64_t bins, std::int64_t ratio) {
    const T offset = aligned ? static_cast<T>(0.5) : static_cast<T>(0);
    start = first * scale - offset;
    T length = last * scale - offset - start;
    if (!aligned) length = std::max<T>(length, 1);
    step = length / static_cast<T>(bins);
    samples = ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(length / static_cast<T>(bins)));
  }

  T at(std::int64_t bin, std::int64_t index) const {
    return start + static_cast<T>(bin) * step +
           (static_cast<T>(index) + static_cast<T>(0.5)) * step / static_cast<T>(samples);
  }

  T start;
  T step;
  std::int64_t samples;
};

// A sample in a plane: the offsets of its four neighbours, and their weights.
template <typename T>
struct Point {
  Point(const Tensor& input, const Sample<T>& y, const Sample<T>& x) {
    const std::int64_t rows[2] = {y.low * input.strides()[2], y.high * input.strides()[2]};
    const std::int64_t columns[2] = {x.low * input.strides()[3], x.high * input.strides()[3]};
    for (int i = 0; i < 4; ++i) {
      offsets[i] = rows[i / 2] + columns[i % 2];
      weights[i] = (i / 2 == 0 ? 1 - y.weight : y.weight) * (i % 2 == 0 ? 1 - x.weight : x.weight);
    }
  }

  T of(const T* plane) const {
    return weights[0] * plane[offsets[0]] + weights[1] * plane[offsets[1]] + weights[2] * plane[offsets[2]] +
           weights[3] * plane[offsets[3]];
  }

  std::int64_t offsets[4] = {};
  T weights[4] = {};
};

// Fills a region's part of the output, for all channels.
template <typename T>
void pool(const Tensor& input, const T* image, const Bins<T>& rows, const Bins<T>& columns, const Tensor& out, T* to) {
  const T count = static_cast<T>(std::max<std::int64_t>(rows.samples * columns.samples, 1));
  std::vector<Point<T>> points;
  for (std::int64_t row = 0; row < out.size(2); ++row) {
    for (std::int64_t column = 0; column < out.size(3); ++column, ++to) {
      points.clear();
      for (std::int64_t i = 0; i < rows.samples; ++i) {
        const Sample<T> y = sample(rows.at(row, i), input.size(2));
        for (std::int64_t j = 0; y.inside && j < columns.samples; ++j) {
          const Sample<T> x = sample(columns.at(column, j), input.size(3));
          if (x.inside) points.emplace_back(input, y, x);
        }
      }
      for (std::int64_t channel = 0; channel < out.size(1); ++channel) {
        T sum = 0;
        for (const Point<T>& point : points) sum += point.of(image + channel * input.strides()[1]);
        to[channel * out.size(2) * out.size(3)] = sum / count;
      }
    }
  }
}

void roi_align(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& input = arguments[0]->toTensor();
  const Tensor& rois = arguments[1]->toTensor();
  const double scale = arguments[2]->toDouble();
  const std::int64_t height = arguments[3]->toInt();
  const std::int64_t width = arguments[4]->toInt();
  const std::int64_t ratio = arguments[5]->toInt();
  const bool aligned = arguments[6]->toBool();
  Tensor& out = arguments[7]->toTensor();
  MB_CHECK(context, input.dim() == 4, "input: expected four dimensions");
  MB_CHECK(context, rois.dim() == 2 && rois.size(1) == 5 && row_major(rois), "rois: expected n x 5");
  MB_CHECK(context, rois.scalar_type() == input.scalar_type() && out.scalar_type() == input.scalar_type(),
           "rois: expected the type of the input");
  MB_CHECK(context, height > 0 && width > 0, "expected a pooled height and width of 1 or more");
  const auto regions = static_cast<int>(rois.size(0));
  const auto channels = static_cast<int>(input.size(1));
  MB_CHECK(context, resize(out, {regions, channels, static_cast<int>(height), static_cast<int>(width)}),
           "out: no room for %d regions", regions);
  MB_CHECK(context, row_major(out), "out: expected row-major order");
  bool valid = true;
  const bool known = with_float(input.scalar_type(), [&](auto type) {
    using T = decltype(type);
    T* to = out.mutable_data_ptr<T>();
    for (int n = 0; n < regions; ++n, to += channels * height * width) {
      const T* roi = rois.const_data_ptr<T>() + 5 * static_cast<std::int64_t>(n);
      const bool there = roi[0] >= 0 && roi[0] < static_cast<T>(input.size(0));
      valid = valid && there && std::isfinite(roi[1] + roi[2] + roi[3] + roi[4]);
      if (!valid) return;
      const T* image = input.const_data_ptr<T>() + static_cast<std::int64_t>(roi[0]) * input.strides()[0];
      const Bins<T> rows(roi[2], roi[4], static_cast<T>(scale), aligned, height, ratio);
      const Bins<T> columns(roi[1], roi[3], static_cast<T>(scale), aligned, width, ratio);
      pool(input, image, rows, columns, out, to);
    }
  });
  MB_CHECK(context, known, "input: expected float32 or float64");
  MB_CHECK(context, valid, "rois: expected finite boxes and the numbers of images");
}

const Registration kRegistered("torchvision::roi_align.out", roi_align);

}  // namespace
}  // namespace modelbuild::kernels
