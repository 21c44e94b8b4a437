// modelbuild_kernels::batched_nms(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold) -> Tensor:
// torchvision.ops.batched_nms on the CPU, non-maximum suppression among the boxes of each class.
#include <iterator>

#include "nms.hpp"

namespace modelbuild::kernels {
namespace {

// Up to this count torchvision moves the boxes of each class apart and suppresses all at once. The sums are rounded, so
// it can find other boxes than class by class, which it does above.
constexpr std::int64_t kMovedApart = 1000;

// Returns the boxes of each class moved apart from those of all others.
template <typename T, typename Class>
std::vector<T> moved_apart(const T* boxes, const Class* classes, std::int64_t count) {
  T largest = boxes[0];
  for (std::int64_t i = 0; i < 4 * count && !is_nan(largest); ++i) {
    if (!(boxes[i] <= largest)) largest = boxes[i];
  }
  std::vector<T> moved(boxes, boxes + 4 * count);
  for (std::int64_t i = 0; i < count; ++i) {
    const T offset = static_cast<T>(classes[i]) * (largest + 1);
    for (std::int64_t j = 4 * i; j < 4 * i + 4; ++j) moved[j] += offset;
  }
  return moved;
}

// Calls non-maximum suppression for the boxes of each class, and returns the kept boxes of all classes, best first.
// Boxes whose class is NaN are of no class.
template <typename T, typename Class>
std::vector<std::int64_t> kept_by_class(const T* boxes, const T* scores, const Class* classes, std::int64_t count,
                                        double threshold) {
  const std::vector<std::int64_t> order = best_first(scores, count);
  std::vector<std::int64_t> by_class;
  std::copy_if(order.begin(), order.end(), std::back_inserter(by_class),
               [&](std::int64_t i) { return !is_nan(classes[i]); });
  std::stable_sort(by_class.begin(), by_class.end(),
                   [&](std::int64_t a, std::int64_t b) { return classes[a] < classes[b]; });
  std::vector<bool> keeps(static_cast<std::size_t>(count));
  for (auto first = by_class.begin(); first != by_class.end();) {
    const auto last =
        std::find_if(first, by_class.end(), [&](std::int64_t i) { return classes[i] != classes[*first]; });
    for (const std::int64_t i : kept(boxes, std::vector<std::int64_t>(first, last), threshold)) keeps[i] = true;
    first = last;
  }
  std::vector<std::int64_t> found;
  std::copy_if(order.begin(), order.end(), std::back_inserter(found), [&](std::int64_t i) { return keeps[i]; });
  return found;
}

template <typename T, typename Class>
std::vector<std::int64_t> kept_of_all(const T* boxes, const T* scores, const Class* classes, std::int64_t count,
                                      double threshold) {
  if (count == 0) return {};
  if (count > kMovedApart) return kept_by_class(boxes, scores, classes, count, threshold);
  return kept(moved_apart(boxes, classes, count).data(), best_first(scores, count), threshold);
}

void batched_nms(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& boxes = arguments[0]->toTensor();
  const Tensor& scores = arguments[1]->toTensor();
  const Tensor& classes = arguments[2]->toTensor();
  const double threshold = number(*arguments[3]);
  Tensor& out = arguments[4]->toTensor();
  MB_CHECK(context, boxes.dim() == 2 && boxes.size(1) == 4, "boxes: expected n x 4");
  MB_CHECK(context, scores.dim() == 1 && scores.size(0) == boxes.size(0), "scores: expected one for each box");
  MB_CHECK(context, classes.dim() == 1 && classes.size(0) == boxes.size(0), "idxs: expected one for each box");
  MB_CHECK(context, scores.scalar_type() == boxes.scalar_type(), "scores: expected the type of boxes");
  MB_CHECK(context, row_major(boxes), "boxes: expected row-major order");
  MB_CHECK(context, out.scalar_type() == ScalarType::Long && out.dim() == 1, "out: expected a vector of int64");
  std::vector<std::int64_t> found;
  bool counts = false;
  const bool known = with_float(boxes.scalar_type(), [&](auto type) {
    using T = decltype(type);
    counts = with_any(classes.scalar_type(), [&](auto kind) {
      found = kept_of_all(boxes.const_data_ptr<T>(), scores.const_data_ptr<T>(),
                          classes.const_data_ptr<decltype(kind)>(), boxes.size(0), threshold);
    });
  });
  MB_CHECK(context, known, "boxes: expected float32 or float64");
  MB_CHECK(context, counts, "idxs: expected numbers");
  MB_CHECK(context, resize(out, {static_cast<int>(found.size())}), "out: no room for %zu indices", found.size());
  std::copy(found.begin(), found.end(), out.mutable_data_ptr<std::int64_t>());
}

const Registration kRegistered("modelbuild_kernels::batched_nms.out", batched_nms);

}  // namespace
}  // namespace modelbuild::kernels
