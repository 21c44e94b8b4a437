// The mean of bilinear samples in each bin of a region, for the kernels of roi_align and multiscale_roi_align.
#pragma once

#include <algorithm>
#include <cmath>

#include "parallel.hpp"

namespace modelbuild::kernels {

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

// Fills a region's part of the output, channel by channel: the samples of a channel are near each other in memory.
template <typename T>
void pool(const Tensor& input, const T* image, const Bins<T>& rows, const Bins<T>& columns, const Tensor& out, T* to) {
  const T count = static_cast<T>(std::max<std::int64_t>(rows.samples * columns.samples, 1));
  std::vector<Point<T>> points;
  std::vector<std::size_t> ends;  // of each bin's points
  for (std::int64_t row = 0; row < out.size(2); ++row) {
    for (std::int64_t column = 0; column < out.size(3); ++column) {
      for (std::int64_t i = 0; i < rows.samples; ++i) {
        const Sample<T> y = sample(rows.at(row, i), input.size(2));
        for (std::int64_t j = 0; y.inside && j < columns.samples; ++j) {
          const Sample<T> x = sample(columns.at(column, j), input.size(3));
          if (x.inside) points.emplace_back(input, y, x);
        }
      }
      ends.push_back(points.size());
    }
  }
  for (std::int64_t channel = 0; channel < out.size(1); ++channel) {
    const T* plane = image + channel * input.strides()[1];
    std::size_t point = 0;
    for (const std::size_t end : ends) {
      T sum = 0;
      for (; point < end; ++point) sum += points[point].of(plane);
      *to++ = sum / count;
    }
  }
}

// Returns whether the five numbers of a region are that of an image of the input, and a finite box.
template <typename T>
bool is_region(const T* roi, const Tensor& input) {
  const bool there = roi[0] >= 0 && roi[0] < static_cast<T>(input.size(0));
  return there && std::isfinite(roi[1] + roi[2] + roi[3] + roi[4]);
}

// Fills a region's part of the output.
template <typename T>
void pool_region(const Tensor& input, const T* roi, T scale, std::int64_t ratio, bool aligned, const Tensor& out,
                 T* to) {
  const T* image = input.const_data_ptr<T>() + static_cast<std::int64_t>(roi[0]) * input.strides()[0];
  const Bins<T> rows(roi[2], roi[4], scale, aligned, out.size(2), ratio);
  const Bins<T> columns(roi[1], roi[3], scale, aligned, out.size(3), ratio);
  pool(input, image, rows, columns, out, to);
}

}  // namespace modelbuild::kernels
