#include "pte/xnnpack_nodes.hpp"

#include <algorithm>

namespace modelbuild::xnnpack {
namespace {

using flatbuffer::Table;
namespace xnn = schema::xnnpack;
using Node = xnn::XNodeUnion;

class ShapeCheck {
 public:
  ShapeCheck(std::uint8_t kind, const Table& node, const std::vector<Value>& values)
      : kind_(kind), node_(node), values_(values) {}

  void check() const {
    const auto& [inputs, outputs] = xnn::kNodeValues[kind_ - 1U];
    switch (kind_) {
      case Node::kXNNFullyConnected:
        return check_linear();
      case Node::kXNNConv2d:
      case Node::kXNNDepthwiseConv2d:
      case Node::kXNNConvTranspose2d:
        return check_convolution();
      case Node::kXNNAvgPooling2d:
      case Node::kXNNMaxPooling2d:
        return check_pooling();
      case Node::kXNNStaticTranspose:
        return check_transpose();
      case Node::kXNNStaticConstantPad:
        return check_pad();
      case Node::kXNNStaticSlice:
        return check_slice();
      case Node::kXNNStaticReshape:
        return check_reshape();
      case Node::kXNNStaticResizeBilinear2D:
        return check_resize();
      case Node::kXNNConcatenate2:
        return check_join(2);
      case Node::kXNNConcatenate3:
        return check_join(3);
      case Node::kXNNConcatenate4:
        return check_join(4);
      case Node::kXNNConcatenate5:
        return check_join(5);
      case Node::kXNNBatchMatrixMultiply:
        return check_product(dims(inputs[0]), dims(inputs[1]), dims(outputs[0]));
      case Node::kXNNGlobalAvgPooling2d:
      case Node::kXNNArgMaxPooling2d:
      case Node::kXNNScaledDotProductAttention:
        return;
      default:  // elementwise
        return inputs[1] < 0 ? require(dims(inputs[0]) == dims(outputs[0]), "a node changes the shape of its input")
                             : check_broadcast(dims(inputs[0]), dims(inputs[1]), dims(outputs[0]));
    }
  }

 private:
  std::uint64_t number(int field) const { return node_.scalar<std::uint32_t>(field); }
  Dims list(int field) const { return node_.scalars<std::uint32_t>(field); }

  const Value& operand(int field) const {
    const std::uint64_t id = number(field);
    require(id < values_.size(), "it names a value that does not exist");
    return values_[id];
  }
  const Dims& dims(int field) const { return operand(field).sizes; }

  static void check_broadcast(const Dims& one, const Dims& other, const Dims& out) {
    require(out.size() == std::max(one.size(), other.size()), "a node's output has another number of dimensions");
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint32_t first = i < one.size() ? one[one.size() - 1 - i] : 1;
      const std::uint32_t second = i < other.size() ? other[other.size() - 1 - i] : 1;
      const bool fits = first == second || first == 1 || second == 1;
      require(fits && out[out.size() - 1 - i] == (first == 1 ? second : first),
              "a node's inputs have different shapes");
    }
  }

  static void check_product(const Dims& one, const Dims& other, const Dims& out) {
    require(one.size() >= 2 && one.size() == other.size() && out.size() == one.size(),
            "a product has another number of dimensions");
    const std::size_t last = one.size() - 1;
    const auto batch = [last](const Dims& of) {
      return Dims(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(last) - 1);
    };
    check_broadcast(batch(one), batch(other), batch(out));
    const bool plain = one[last] == other[last - 1] && out[last] == other[last];
    const bool transposed = one[last] == other[last] && out[last] == other[last - 1];
    require(out[last - 1] == one[last - 1] && (plain || transposed), "a product's inputs have different shapes");
  }

  // XNNPACK packs the elements of a bias when it compiles.
  void check_bias(int field, std::uint64_t channels) const {
    if (number(field) == kNoValue) return;
    require(operand(field).constant && product(dims(field)) >= channels, "a bias has fewer elements than channels");
  }

  void check_linear() const {
    using Linear = xnn::XNNFullyConnected;
    constexpr std::uint64_t kTransposed = 1;
    const Dims& input = dims(Linear::kInput1Id);
    const Dims& filter = dims(Linear::kFilterId);
    const Dims& output = dims(Linear::kOutputId);
    require(filter.size() == 2 && !input.empty() && !output.empty(), "a linear layer has an invalid shape");
    const bool transposed = (number(Linear::kFlags) & kTransposed) != 0;
    const std::uint32_t in = filter[transposed ? 0 : 1];
    const std::uint32_t out = filter[transposed ? 1 : 0];
    require(
        input.back() == in && output.back() == out && in > 0 && out > 0 && product(input) / in == product(output) / out,
        "a linear layer has another number of inputs or outputs");
    check_bias(Linear::kBiasId, out);
  }

  // Checks the sizes of an image along one axis: 1 is vertical, 2 horizontal.
  struct Windows {
    std::uint64_t size;
    std::uint64_t padding;
    std::uint64_t step;
    std::uint64_t dilation;
  };
  static void check_image(const Dims& input, const Dims& output, std::size_t axis, const Windows& windows) {
    require(input.size() == 4 && output.size() == 4 && output[0] == input[0], "an image has an invalid shape");
    require(windows.size > 0 && windows.step > 0, "an image has a step or window of 0");
    const auto reach = static_cast<std::int64_t>(windows.dilation * (windows.size - 1));
    const std::int64_t left = static_cast<std::int64_t>(input[axis] + windows.padding) - reach - 1;
    const std::int64_t count = left < 0 ? 0 : left / static_cast<std::int64_t>(windows.step) + 1;
    require(output[axis] <= count + 1 && count <= std::int64_t{output[axis]} + 1, "an image has another size");
  }

  void check_convolution() const {
    using Conv = xnn::XNNNodeConv;
    const std::uint64_t groups = number(Conv::kGroups);
    const std::uint64_t in = number(Conv::kGroupInputChannels);
    const std::uint64_t out = number(Conv::kGroupOutputChannels);
    const std::uint64_t height = number(Conv::kKernelHeight);
    const std::uint64_t width = number(Conv::kKernelWidth);
    const Dims& input = dims(Conv::kInput1Id);
    const Dims& filter = dims(Conv::kFilterId);
    const Dims& output = dims(Conv::kOutputId);
    require(groups > 0 && in > 0 && out > 0 && number(Conv::kDilationHeight) > 0 && number(Conv::kDilationWidth) > 0,
            "a convolution has a size of 0");
    const bool depthwise = kind_ == Node::kXNNDepthwiseConv2d;
    require(operand(Conv::kFilterId).constant && filter.size() == 4 && filter[0] == (depthwise ? 1 : groups * out) &&
                filter[1] == height && filter[2] == width && filter[3] == (depthwise ? groups * out : in),
            "a convolution's filter has another shape");
    const Windows high = {height, number(Conv::kPaddingTop) + number(Conv::kPaddingBottom),
                          number(Conv::kSubsamplingHeight), number(Conv::kDilationHeight)};
    const Windows wide = {width, number(Conv::kPaddingLeft) + number(Conv::kPaddingRight),
                          number(Conv::kSubsamplingWidth), number(Conv::kDilationWidth)};
    require(input.size() == 4 && output.size() == 4, "an image has an invalid shape");
    if (kind_ == Node::kXNNConvTranspose2d) {  // its input is the image that the windows of its output make
      check_image(output, input, 1, high);
      check_image(output, input, 2, wide);
    } else {
      check_image(input, output, 1, high);
      check_image(input, output, 2, wide);
    }
    require(input[3] == groups * in && output[3] == groups * out, "a convolution has another number of channels");
    check_bias(Conv::kBiasId, groups * out);
  }

  void check_pooling() const {
    using Pool = xnn::XNNPooling2D;
    const Dims& input = dims(Pool::kInputId);
    const Dims& output = dims(Pool::kOutputId);
    const std::uint64_t dilation_high = std::max<std::uint64_t>(number(Pool::kDilationHeight), 1);
    const std::uint64_t dilation_wide = std::max<std::uint64_t>(number(Pool::kDilationWidth), 1);
    require(input.size() == 4 && output.size() == 4 && input[3] == output[3], "an image has an invalid shape");
    check_image(input, output, 1,
                {number(Pool::kPoolingHeight), number(Pool::kPaddingTop) + number(Pool::kPaddingBottom),
                 number(Pool::kStrideHeight), dilation_high});
    check_image(input, output, 2,
                {number(Pool::kPoolingWidth), number(Pool::kPaddingLeft) + number(Pool::kPaddingRight),
                 number(Pool::kStrideWidth), dilation_wide});
  }

  void check_transpose() const {
    using Transpose = xnn::XNNStaticTranspose;
    const Dims& input = dims(Transpose::kInputId);
    const Dims& output = dims(Transpose::kOutputId);
    const Dims order = list(Transpose::kPerm);
    require(
        order.size() == number(Transpose::kNumDims) && order.size() == input.size() && output.size() == input.size(),
        "a list has another length than the dimensions");
    for (std::size_t i = 0; i < order.size(); ++i) {
      require(order[i] < input.size() && output[i] == input[order[i]] &&
                  std::count(order.begin(), order.end(), order[i]) == 1,
              "an order of dimensions is not a permutation");
    }
  }

  void check_pad() const {
    using Pad = xnn::XNNStaticConstantPad;
    const Dims& input = dims(Pad::kInputId);
    const Dims& output = dims(Pad::kOutputId);
    const Dims before = list(Pad::kPrePaddings);
    const Dims after = list(Pad::kPostPaddings);
    require(before.size() == input.size() && after.size() == input.size() && output.size() == input.size(),
            "a list has another length than the dimensions");
    for (std::size_t i = 0; i < input.size(); ++i) {
      require(output[i] == std::uint64_t{input[i]} + before[i] + after[i], "a padded value has another shape");
    }
  }

  void check_slice() const {
    using Slice = xnn::XNNStaticSlice;
    const Dims& input = dims(Slice::kInputId);
    const Dims sizes = list(Slice::kSizes);
    const Dims offsets = list(Slice::kOffsets);
    require(sizes.size() == number(Slice::kNumDims) && sizes.size() == input.size() && offsets.size() == input.size() &&
                sizes == dims(Slice::kOutputId),
            "a list has another length than the dimensions");
    for (std::size_t i = 0; i < input.size(); ++i) {
      require(std::uint64_t{offsets[i]} + sizes[i] <= input[i], "a slice ends after its value");
    }
  }

  // A size of 0 is computed from the others.
  void check_reshape() const {
    using Reshape = xnn::XNNStaticReshape;
    const Dims shape = list(Reshape::kNewShape);
    const Dims& output = dims(Reshape::kOutputId);
    require(shape.size() == number(Reshape::kNumDims) && product(output) == product(dims(Reshape::kInputId)),
            "a reshaped value has another shape");
    if (shape.size() != output.size()) {  // a tensor without dimensions has one of size 1, or none
      require(product(shape) == 1 && product(output) == 1, "a reshaped value has another shape");
      return;
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
      require(shape[i] == 0 || shape[i] == output[i], "a reshaped value has another shape");
    }
  }

  void check_resize() const {
    using Resize = xnn::XNNStaticResizeBilinear2D;
    const Dims& input = dims(Resize::kInputId);
    const Dims& output = dims(Resize::kOutputId);
    require(input.size() == 4 && output == Dims({input[0], node_.scalar<std::uint32_t>(Resize::kNewHeight),
                                                 node_.scalar<std::uint32_t>(Resize::kNewWidth), input[3]}),
            "an image has another size");
  }

  void check_join(std::size_t count) const {
    const Dims& output = dims(xnn::XNNCat::kOutputId);
    const auto axis = node_.scalar<std::int32_t>(xnn::XNNCat::kAxis);
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(output.size()) : axis);
    require(at < output.size(), "values are joined along no dimension");
    Dims joined = output;
    joined[at] = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Dims input = dims(xnn::kNodeValues[kind_ - 1U][0][i]);
      require(input.size() == output.size() && !__builtin_add_overflow(joined[at], input[at], &joined[at]),
              "joined values have different shapes");
      input[at] = joined[at];
      require(input == joined, "joined values have different shapes");
    }
    require(joined == output, "joined values have different shapes");
  }

  std::uint8_t kind_;
  const Table& node_;
  const std::vector<Value>& values_;
};

}  // namespace

bool packs(std::uint8_t kind, std::size_t input) {
  switch (kind) {
    case Node::kXNNFullyConnected:
    case Node::kXNNConv2d:
    case Node::kXNNDepthwiseConv2d:
    case Node::kXNNConvTranspose2d:
    case Node::kXNNPReLU:
    case Node::kXNNBatchMatrixMultiply:
    case Node::kXNNScaledDotProductAttention:
      return input > 0;
    default:
      return false;
  }
}

void check_node_shapes(std::uint8_t kind, const Table& fields, const std::vector<Value>& values) {
  ShapeCheck(kind, fields, values).check();
}

}  // namespace modelbuild::xnnpack
