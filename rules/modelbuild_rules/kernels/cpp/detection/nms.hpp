// Greedy non-maximum suppression, for the kernels of nms and batched_nms.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel.hpp"

namespace modelbuild::kernels {

// Returns indices by descending score. Equal scores keep their order, and NaN is the highest score, as in torch.sort.
template <typename T>
std::vector<std::int64_t> best_first(const T* scores, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] > scores[b] || (std::isnan(scores[a]) && !std::isnan(scores[b]));
  });
  return order;
}

// Returns the indices of boxes that greedy non-maximum suppression keeps, of those with the given indices, best first.
template <typename T>
std::vector<std::int64_t> kept(const T* boxes, const std::vector<std::int64_t>& order, double threshold) {
  struct Box {
    T left, top, right, bottom, area;
  };
  std::vector<Box> left;  // boxes that no better one dropped
  std::vector<std::int64_t> indices(order);
  left.reserve(order.size());
  for (const std::int64_t index : order) {
    const T* box = boxes + 4 * index;
    left.push_back({box[0], box[1], box[2], box[3], (box[2] - box[0]) * (box[3] - box[1])});
  }
  std::vector<std::int64_t> found;
  for (std::size_t first = 0, count = left.size(); first < count; ++first) {
    const Box best = left[first];
    found.push_back(indices[first]);
    std::size_t end = first + 1;
    for (std::size_t i = first + 1; i < count; ++i) {
      const Box& other = left[i];
      const T width = std::max<T>(0, std::min(best.right, other.right) - std::max(best.left, other.left));
      const T height = std::max<T>(0, std::min(best.bottom, other.bottom) - std::max(best.top, other.top));
      const T shared = width * height;
      if (shared / (best.area + other.area - shared) > threshold) continue;  // false for NaN, of two empty boxes
      left[end] = other;
      indices[end++] = indices[i];
    }
    count = end;
  }
  return found;
}

}  // namespace modelbuild::kernels
