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

template <typename T>
T area(const T* box) {
  return (box[2] - box[0]) * (box[3] - box[1]);
}

// Returns the intersection of two boxes over their union; NaN if both are empty.
template <typename T>
T overlap(const T* a, const T* b) {
  const T width = std::max<T>(0, std::min(a[2], b[2]) - std::max(a[0], b[0]));
  const T height = std::max<T>(0, std::min(a[3], b[3]) - std::max(a[1], b[1]));
  const T shared = width * height;
  return shared / (area(a) + area(b) - shared);
}

// Returns the indices of boxes that greedy non-maximum suppression keeps, best first. A box drops another one only if
// `related` is true of their indices.
template <typename T, typename Related>
std::vector<std::int64_t> kept(const T* boxes, const T* scores, std::int64_t count, double threshold,
                               const Related& related) {
  const std::vector<std::int64_t> order = best_first(scores, count);
  std::vector<bool> dropped(order.size());
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (dropped[i]) continue;
    found.push_back(order[i]);
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (dropped[j] || !related(order[i], order[j])) continue;
      dropped[j] = overlap(boxes + 4 * order[i], boxes + 4 * order[j]) > threshold;
    }
  }
  return found;
}

}  // namespace modelbuild::kernels
