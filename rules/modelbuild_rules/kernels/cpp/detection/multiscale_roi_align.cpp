// modelbuild_kernels::multiscale_roi_align(Tensor[] features, Tensor rois, Tensor levels, float[] scales,
// int pooled_height, int pooled_width, int sampling_ratio) -> Tensor: torchvision's roi_align of each region in the
// feature map of its level.
#include "roi_align.hpp"

namespace modelbuild::kernels {
namespace {

using Maps = executorch::aten::ArrayRef<Tensor>;

// Returns whether feature maps have four dimensions, as many channels as the output, and its type.
bool alike(const Maps& features, const Tensor& out) {
  return std::all_of(features.begin(), features.end(), [&](const Tensor& map) {
    return map.dim() == 4 && map.size(1) == out.size(1) && map.scalar_type() == out.scalar_type();
  });
}

void multiscale_roi_align(KernelRuntimeContext& context, Arguments arguments) {
  const Maps features = arguments[0]->toTensorList();
  const Tensor& rois = arguments[1]->toTensor();
  const Tensor& levels = arguments[2]->toTensor();
  const auto scales = arguments[3]->toDoubleList();
  const std::int64_t height = arguments[4]->toInt();
  const std::int64_t width = arguments[5]->toInt();
  const std::int64_t ratio = arguments[6]->toInt();
  Tensor& out = arguments[7]->toTensor();
  MB_CHECK(context, !features.empty() && scales.size() == features.size(), "scales: expected one for each feature map");
  MB_CHECK(context, rois.dim() == 2 && rois.size(1) == 5 && row_major(rois), "rois: expected n x 5");
  MB_CHECK(context, levels.dim() == 1 && levels.size(0) == rois.size(0) && levels.scalar_type() == ScalarType::Long,
           "levels: expected one int64 for each region");
  MB_CHECK(context, out.dim() == 4 && alike(features, out), "features: expected maps of one type and channel count");
  MB_CHECK(context, rois.scalar_type() == out.scalar_type(), "rois: expected the type of the features");
  MB_CHECK(context, height > 0 && width > 0, "expected a pooled height and width of 1 or more");
  const auto regions = static_cast<int>(rois.size(0));
  const auto channels = static_cast<int>(out.size(1));
  MB_CHECK(context, resize(out, {regions, channels, static_cast<int>(height), static_cast<int>(width)}),
           "out: no room for %d regions", regions);
  MB_CHECK(context, row_major(out), "out: expected row-major order");
  bool valid = true;
  bool computed = true;
  const bool known = with_float(out.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const T* roi = rois.const_data_ptr<T>();
    const std::int64_t* level = levels.const_data_ptr<std::int64_t>();
    for (int n = 0; n < regions; ++n) {
      valid = valid && level[n] >= 0 && level[n] < static_cast<std::int64_t>(features.size());
      valid = valid && is_region(roi + 5 * static_cast<std::int64_t>(n), features[level[n]]);
    }
    if (!valid) return;
    const std::int64_t size = channels * height * width;
    computed = each_of(regions, 1, [&](std::int64_t n) {
      pool_region(features[level[n]], roi + 5 * n, static_cast<T>(scales[level[n]]), ratio, false, out,
                  out.mutable_data_ptr<T>() + n * size);
    });
  });
  MB_CHECK(context, known, "features: expected float32 or float64");
  MB_CHECK(context, valid, "rois: expected finite boxes, and the numbers of images and levels");
  MB_CHECK(context, computed, "the threads failed");
}

const Registration kRegistered("modelbuild_kernels::multiscale_roi_align.out", multiscale_roi_align);

}  // namespace
}  // namespace modelbuild::kernels
