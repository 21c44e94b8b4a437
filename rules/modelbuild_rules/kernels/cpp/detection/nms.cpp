// torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor: greedy non-maximum suppression.
#include "nms.hpp"

namespace modelbuild::kernels {
namespace {

void nms(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& boxes = arguments[0]->toTensor();
  const Tensor& scores = arguments[1]->toTensor();
  const double threshold = number(*arguments[2]);
  Tensor& out = arguments[3]->toTensor();
  MB_CHECK(context, boxes.dim() == 2 && boxes.size(1) == 4, "boxes: expected n x 4");
  MB_CHECK(context, scores.dim() == 1 && scores.size(0) == boxes.size(0), "scores: expected one for each box");
  MB_CHECK(context, scores.scalar_type() == boxes.scalar_type(), "scores: expected the type of boxes");
  MB_CHECK(context, row_major(boxes), "boxes: expected row-major order");
  MB_CHECK(context, out.scalar_type() == ScalarType::Long && out.dim() == 1, "out: expected a vector of int64");
  std::vector<std::int64_t> found;
  const bool known = with_float(boxes.scalar_type(), [&](auto type) {
    using T = decltype(type);
    found = kept(boxes.const_data_ptr<T>(), best_first(scores.const_data_ptr<T>(), boxes.size(0)), threshold);
  });
  MB_CHECK(context, known, "boxes: expected float32 or float64");
  MB_CHECK(context, resize(out, {static_cast<int>(found.size())}), "out: no room for %zu indices", found.size());
  std::copy(found.begin(), found.end(), out.mutable_data_ptr<std::int64_t>());
}

const Registration kRegistered("torchvision::nms.out", nms);

}  // namespace
}  // namespace modelbuild::kernels
