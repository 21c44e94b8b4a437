// torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor: greedy non-maximum suppression.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

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

template <typename T>
std::vector<std::int64_t> kept(const T* boxes, const T* scores, std::int64_t count, double threshold) {
  const std::vector<std::int64_t> order = best_first(scores, count);
  std::vector<bool> dropped(order.size());
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (dropped[i]) continue;
    found.push_back(order[i]);
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (overlap(boxes + 4 * order[i], boxes + 4 * order[j]) > threshold) dropped[j] = true;
    }
  }
  return found;
}

void nms(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& boxes = arguments[0]->toTensor();
  const Tensor& scores = arguments[1]->toTensor();
  const double threshold = arguments[2]->toDouble();
  Tensor& out = arguments[3]->toTensor();
  MB_CHECK(context, boxes.dim() == 2 && boxes.size(1) == 4, "boxes: expected n x 4");
  MB_CHECK(context, scores.dim() == 1 && scores.size(0) == boxes.size(0), "scores: expected one for each box");
  MB_CHECK(context, scores.scalar_type() == boxes.scalar_type(), "scores: expected the type of boxes");
  MB_CHECK(context, row_major(boxes), "boxes: expected row-major order");
  MB_CHECK(context, out.scalar_type() == ScalarType::Long && out.dim() == 1, "out: expected a vector of int64");
  std::vector<std::int64_t> found;
  const bool known = with_float(boxes.scalar_type(), [&](auto type) {
    using T = decltype(type);
    found = kept(boxes.const_data_ptr<T>(), scores.const_data_ptr<T>(), boxes.size(0), threshold);
  });
  MB_CHECK(context, known, "boxes: expected float32 or float64");
  MB_CHECK(context, resize(out, {static_cast<int>(found.size())}), "out: no room for %zu indices", found.size());
  std::copy(found.begin(), found.end(), out.mutable_data_ptr<std::int64_t>());
}

const Registration kRegistered("torchvision::nms.out", nms);

}  // namespace
}  // namespace modelbuild::kernels
