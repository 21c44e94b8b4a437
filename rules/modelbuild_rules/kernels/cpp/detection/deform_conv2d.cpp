// torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h,
// int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, bool use_mask)
// -> Tensor: a convolution whose sampling points are moved by offsets, and scaled by a mask.
#include <algorithm>
#include <cmath>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

// The numbers of one direction: vertical or horizontal.
struct Axis {
  std::int64_t size;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;

  bool valid() const { return stride > 0 && padding >= 0 && dilation > 0 && kernel > 0; }
  std::int64_t outputs() const {
    const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
};

// Returns the value between pixels; pixels outside the plane are zero.
template <typename T>
T value_at(const T* plane, const Axis& rows, const Axis& columns, T y, T x) {
  if (!(y > -1 && y < static_cast<T>(rows.size) && x > -1 && x < static_cast<T>(columns.size))) return 0;
  const auto top = static_cast<std::int64_t>(std::floor(y));
  const auto left = static_cast<std::int64_t>(std::floor(x));
  const T down = y - static_cast<T>(top);
  const T right = x - static_cast<T>(left);
  const auto at = [&](std::int64_t row, std::int64_t column) -> T {
    const bool inside = row >= 0 && row < rows.size && column >= 0 && column < columns.size;
    return inside ? plane[row * columns.size + column] : 0;
  };
  return (1 - down) * (1 - right) * at(top, left) + (1 - down) * right * at(top, left + 1) +
         down * (1 - right) * at(top + 1, left) + down * right * at(top + 1, left + 1);
}

struct Shape {
  Axis rows;
  Axis columns;
  std::int64_t images;
  std::int64_t channels;
  std::int64_t outputs;  // channels of the result
  std::int64_t groups;
  std::int64_t offset_groups;

  std::int64_t kernel() const { return rows.kernel * columns.kernel; }
  std::int64_t pixels() const { return rows.outputs() * columns.outputs(); }
};

// Writes the sampled values of all channels and points of the kernel for one pixel of the result.
template <typename T>
void gather(const Shape& shape, const T* image, const T* offset, const T* mask, std::int64_t pixel, T* column) {
  const std::int64_t per_group = shape.channels / shape.offset_groups;
  const std::int64_t row = pixel / shape.columns.outputs() * shape.rows.stride - shape.rows.padding;
  const std::int64_t first = pixel % shape.columns.outputs() * shape.columns.stride - shape.columns.padding;
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    const std::int64_t base = channel / per_group * shape.kernel();
    const T* plane = image + channel * shape.rows.size * shape.columns.size;
    for (std::int64_t point = 0; point < shape.kernel(); ++point) {
      const T* moved = offset + 2 * (base + point) * shape.pixels() + pixel;
      const auto above = point / shape.columns.kernel * shape.rows.dilation;
      const T y = static_cast<T>(row + above) + moved[0];
      const T x = static_cast<T>(first + point % shape.columns.kernel * shape.columns.dilation) + moved[shape.pixels()];
      const T scale = mask == nullptr ? 1 : mask[(base + point) * shape.pixels() + pixel];
      *column++ = scale * value_at(plane, shape.rows, shape.columns, y, x);
    }
  }
}

template <typename T>
void convolve(const Shape& shape, const Tensor& input, const Tensor& weight, const Tensor& offset, const T* mask,
              const Tensor& bias, Tensor& out) {
  const std::int64_t length = shape.channels / shape.groups * shape.kernel();
  std::vector<T> column(static_cast<std::size_t>(shape.channels * shape.kernel()));
  for (std::int64_t n = 0; n < shape.images; ++n) {
    const std::int64_t points = shape.offset_groups * shape.kernel() * shape.pixels();
    const T* image = input.const_data_ptr<T>() + n * shape.channels * shape.rows.size * shape.columns.size;
    for (std::int64_t pixel = 0; pixel < shape.pixels(); ++pixel) {
      gather(shape, image, offset.const_data_ptr<T>() + 2 * n * points, mask == nullptr ? mask : mask + n * points,
             pixel, column.data());
      for (std::int64_t channel = 0; channel < shape.outputs; ++channel) {
        const T* taps = weight.const_data_ptr<T>() + channel * length;
        const T* values = column.data() + channel / (shape.outputs / shape.groups) * length;
        T sum = bias.const_data_ptr<T>()[channel];
        for (std::int64_t i = 0; i < length; ++i) sum += taps[i] * values[i];
        out.mutable_data_ptr<T>()[(n * shape.outputs + channel) * shape.pixels() + pixel] = sum;
      }
    }
  }
}

bool has_sizes(const Tensor& tensor, std::initializer_list<std::int64_t> sizes) {
  return std::equal(tensor.sizes().begin(), tensor.sizes().end(), sizes.begin(), sizes.end());
}

void deform_conv2d(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& input = arguments[0]->toTensor();
  const Tensor& weight = arguments[1]->toTensor();
  const Tensor& offset = arguments[2]->toTensor();
  const Tensor& mask = arguments[3]->toTensor();
  const Tensor& bias = arguments[4]->toTensor();
  const bool masked = arguments[13]->toBool();
  Tensor& out = arguments[14]->toTensor();
  MB_CHECK(context, input.dim() == 4 && weight.dim() == 4, "input, weight: expected four dimensions");
  const auto number = [&](int index) { return arguments[index]->toInt(); };
  const Shape shape{{input.size(2), weight.size(2), number(5), number(7), number(9)},
                    {input.size(3), weight.size(3), number(6), number(8), number(10)},
                    input.size(0),
                    input.size(1),
                    weight.size(0),
                    number(11),
                    number(12)};
  MB_CHECK(context, shape.rows.valid() && shape.columns.valid(), "expected a stride and a dilation of 1 or more");
  MB_CHECK(context, shape.groups > 0 && shape.offset_groups > 0, "expected one group or more");
  MB_CHECK(context, shape.channels == weight.size(1) * shape.groups && shape.outputs % shape.groups == 0,
           "weight: expected the input's channels in each group");
  MB_CHECK(context, shape.channels % shape.offset_groups == 0, "offset_groups: expected a divisor of the channels");
  const std::int64_t height = shape.rows.outputs();
  const std::int64_t width = shape.columns.outputs();
  const std::int64_t points = shape.offset_groups * shape.kernel();
  MB_CHECK(context, has_sizes(offset, {shape.images, 2 * points, height, width}), "offset: an unexpected shape");
  MB_CHECK(context, !masked || has_sizes(mask, {shape.images, points, height, width}), "mask: an unexpected shape");
  MB_CHECK(context, has_sizes(bias, {shape.outputs}), "bias: expected a number for each channel of the result");
  for (const Tensor* each : {&weight, &offset, &mask, &bias, static_cast<const Tensor*>(&out)}) {
    MB_CHECK(context, each->scalar_type() == input.scalar_type(), "expected tensors of one type");
    MB_CHECK(context, row_major(*each) && row_major(input), "expected row-major order");
  }
  MB_CHECK(context,
           resize(out, {static_cast<int>(shape.images), static_cast<int>(shape.outputs), static_cast<int>(height),
                        static_cast<int>(width)}),
           "out: no room for the result");
  const bool known = with_float(input.scalar_type(), [&](auto type) {
    using T = decltype(type);
    convolve<T>(shape, input, weight, offset, masked ? mask.const_data_ptr<T>() : nullptr, bias, out);
  });
  MB_CHECK(context, known, "input: expected float32 or float64");
}

const Registration kRegistered("torchvision::deform_conv2d.out", deform_conv2d);

}  // namespace
}  // namespace modelbuild::kernels
