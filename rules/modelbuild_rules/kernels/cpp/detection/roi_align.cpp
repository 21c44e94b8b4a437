// torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width,
// int sampling_ratio, bool aligned) -> Tensor: the mean of bilinear samples in each bin of each region.
#include "roi_align.hpp"

namespace modelbuild::kernels {
namespace {

void roi_align(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& input = arguments[0]->toTensor();
  const Tensor& rois = arguments[1]->toTensor();
  const double scale = number(*arguments[2]);
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
  bool computed = true;
  const bool known = with_float(input.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const T* roi = rois.const_data_ptr<T>();
    for (int n = 0; n < regions; ++n) valid = valid && is_region(roi + 5 * static_cast<std::int64_t>(n), input);
    if (!valid) return;
    const std::int64_t size = channels * height * width;
    computed = each_of(regions, 1, [&](std::int64_t n) {
      pool_region(input, roi + 5 * n, static_cast<T>(scale), ratio, aligned, out, out.mutable_data_ptr<T>() + n * size);
    });
  });
  MB_CHECK(context, known, "input: expected float32 or float64");
  MB_CHECK(context, valid, "rois: expected finite boxes and the numbers of images");
  MB_CHECK(context, computed, "the threads failed");
}

const Registration kRegistered("torchvision::roi_align.out", roi_align);

}  // namespace
}  // namespace modelbuild::kernels
