// The format is executorch/backends/xnnpack/serialization/runtime_schema.fbs after a header ("XH00") at byte 4, as
// executorch 1.5.1 writes it. The delegate verifies the flatbuffer; this file checks what the delegate and XNNPACK
// assume: sizes of constants, numbers of values, the order of nodes, and the arguments of calls.
#include "pte/xnnpack_check.hpp"

#include <algorithm>

#include "pte/xnnpack_nodes.hpp"

namespace modelbuild {
namespace {

using xnnpack::kNoValue;
using xnnpack::product;
using xnnpack::require;

using flatbuffer::Bytes;
using flatbuffer::Table;
namespace xnn = schema::xnnpack;
using Type = xnn::XNNDatatype;
using Node = xnn::XNodeUnion;

constexpr std::size_t kMostDims = 6;
constexpr std::uint32_t kInputFlag = 1;
constexpr std::uint32_t kOutputFlag = 2;
constexpr std::uint32_t kMostExternal = 4096;

// Returns the bits of an element, or 0 for a type that has none.
std::uint64_t bits(std::int16_t type) {
  switch (type) {
    case Type::kXnnDatatypeFp32:
    case Type::kXnnDatatypeQint32:
    case Type::kXnnDatatypeQcint32:
    case Type::kXnnDatatypeInt32:
    case Type::kXnnDatatypePfp32:
      return 32;
    case Type::kXnnDatatypeFp16:
    case Type::kXnnDatatypeBf16:
      return 16;
    case Type::kXnnDatatypeQint8:
    case Type::kXnnDatatypeQuint8:
    case Type::kXnnDatatypeQcint8:
    case Type::kXnnDatatypeQdint8:
    case Type::kXnnDatatypeQpint8:
      return 8;
    case Type::kXnnDatatypeQcint4:
    case Type::kXnnDatatypeQbint4:
      return 4;
    default:
      return 0;
  }
}

// A partition's value has a dimension of 1 for a number.
xnnpack::Dims without_ones(xnnpack::Dims dims) {
  dims.erase(std::remove(dims.begin(), dims.end(), 1U), dims.end());
  return dims;
}

class GraphCheck {
 public:
  GraphCheck(const Table& graph, std::uint64_t constant_bytes, const NamedRead& read)
      : constant_bytes_(constant_bytes),
        read_(read),
        constants_(graph.tables(xnn::XNNGraph::kConstantData)),
        externs_(graph.scalar<std::uint32_t>(xnn::XNNGraph::kNumExterns)) {
    require(externs_ <= kMostExternal, "it has too many inputs and outputs");
    const std::vector<Table> values = graph.tables(xnn::XNNGraph::kXvalues);
    values_.resize(values.size());
    for (const Table& each : values) read_value(each);
    for (const Table& each : graph.tables(xnn::XNNGraph::kXnodes)) check_node(each);
    externals_.resize(externs_, nullptr);
    for (const xnnpack::Value& each : values_) check_external(each);
    require(
        std::all_of(externals_.begin(), externals_.end(), [](const xnnpack::Value* each) { return each != nullptr; }),
        "an input or output has no value");
  }

  void check_call(const std::vector<DelegateArgument>& arguments) const {
    require(externals_.size() <= arguments.size(), "an input or output is no argument");
    for (std::size_t i = 0; i < externals_.size(); ++i) check_argument(arguments[i], *externals_[i]);
  }

 private:
  static void check_argument(const DelegateArgument& argument, const xnnpack::Value& value) {
    require(argument.tensor, "an argument is not a tensor");
    require(value.flags == kInputFlag || !argument.constant, "an output is a constant");
    require(argument.element * 8 >= value.bits, "an argument has elements of another size");
    require(without_ones(argument.sizes) == without_ones(value.sizes),
            "an argument has another shape than the partition's value");
  }

  std::uint32_t number(std::uint32_t id) const {
    require(id < values_.size(), "it names a value that does not exist");
    return id;
  }

  void read_value(const Table& table) {
    const bool quantized =
        table.scalar<std::uint8_t>(xnn::XValue::kXvalueUnionType) == xnn::XValueUnion::kXNNQuantizedTensorValue;
    const Table outer = table.table(xnn::XValue::kXvalueUnion);
    const Table tensor = quantized ? outer.table(xnn::XNNQuantizedTensorValue::kTensorValue) : outer;
    using Tensor = xnn::XNNTensorValue;
    xnnpack::Value& value = values_[number(tensor.scalar<std::uint32_t>(Tensor::kIdOut))];
    require(value.bits == 0, "two values have one number");
    value.bits = bits(tensor.scalar<std::int16_t>(Tensor::kDatatype));
    require(value.bits != 0, "a value has an unknown type");
    value.sizes = tensor.scalars<std::uint32_t>(Tensor::kDims);
    require(value.sizes.size() == tensor.scalar<std::uint32_t>(Tensor::kNumDims) && value.sizes.size() <= kMostDims,
            "a value has an invalid number of dimensions");
    value.external = tensor.scalar<std::uint32_t>(Tensor::kExternalId);
    value.flags = tensor.scalar<std::uint32_t>(Tensor::kFlags);
    const std::uint64_t bytes = value.bytes();
    if (const auto buffer = tensor.scalar<std::uint32_t>(Tensor::kConstantBufferIdx); buffer != 0) {
      value.named = check_constant(buffer, bytes);
      value.constant = value.ready = true;
    }
    if ((value.flags & kInputFlag) != 0) value.ready = true;
    if (quantized) check_quantization(outer, value);
  }

  // Returns whether the constant is outside of the blob.
  bool check_constant(std::uint32_t buffer, std::uint64_t bytes) {
    require(buffer < constants_.size(), "it names a constant that does not exist");
    const Table& place = constants_[buffer];
    if (const std::string name = place.name(xnn::ConstantDataOffset::kNamedKey); !name.empty()) {
      read_(name, bytes);
      return true;
    }
    const auto offset = place.scalar<std::uint64_t>(xnn::ConstantDataOffset::kOffset);
    const auto size = place.scalar<std::uint64_t>(xnn::ConstantDataOffset::kSize);
    require(offset <= constant_bytes_ && size <= constant_bytes_ - offset && bytes <= size,
            "a constant ends after its data");
    return false;
  }

  // Scales are a list in the flatbuffer, or constants.
  void check_scales(const Table& table, int list, int buffer, int count, std::uint64_t wanted, std::uint64_t element) {
    const auto index = table.scalar<std::uint32_t>(buffer);
    const std::uint64_t have = index == 0 ? table.length(list) : table.scalar<std::uint32_t>(count);
    require(have >= wanted, "a value has fewer scales than channels");
    if (index != 0) check_constant(index, have * element);
  }

  void check_quantization(const Table& table, const xnnpack::Value& value) {
    const auto kind = table.scalar<std::uint8_t>(xnn::XNNQuantizedTensorValue::kQuantParamsType);
    const Table parameters = table.table(xnn::XNNQuantizedTensorValue::kQuantParams);
    const auto channels = [&](int field) -> std::uint64_t {
      const auto axis = parameters.scalar<std::int32_t>(field);
      require(axis >= 0 && static_cast<std::size_t>(axis) < value.sizes.size(), "scales belong to no dimension");
      return value.sizes[static_cast<std::size_t>(axis)];
    };
    if (kind == xnn::XNNQuantParams::kPerChannelQuant) {
      using Channel = xnn::PerChannelQuant;
      check_scales(parameters, Channel::kScale, Channel::kScaleBufferIdx, Channel::kNumScales,
                   channels(Channel::kChannelDim), sizeof(float));
    } else if (kind == xnn::XNNQuantParams::kPerChannelGroupQuant) {
      using Group = xnn::PerChannelGroupQuant;
      const auto group = parameters.scalar<std::int32_t>(Group::kGroupSize);
      require(group > 0 && value.sizes.size() == 2, "a value has an invalid group of scales");
      const std::uint64_t groups = (product(value.sizes) / std::max<std::uint64_t>(channels(Group::kChannelDim), 1) +
                                    static_cast<std::uint64_t>(group) - 1) /
                                   static_cast<std::uint64_t>(group);
      check_scales(parameters, Group::kScale, Group::kScaleBufferIdx, Group::kNumScales,
                   channels(Group::kChannelDim) * groups, sizeof(std::uint16_t));
    } else if (kind == xnn::XNNQuantParams::kPerTokenDynamicQuant) {
      const auto inner = parameters.scalar<std::int32_t>(xnn::PerTokenDynamicQuant::kNumNonbatchDims);
      require(inner >= 0 && static_cast<std::size_t>(inner) <= value.sizes.size(), "scales belong to no dimension");
    }
  }

  void check_external(const xnnpack::Value& value) {
    const bool external = value.external != kNoValue;
    require(external == (value.flags == kInputFlag || value.flags == kOutputFlag) && value.flags <= kOutputFlag,
            "a value has invalid flags");
    if (!external) return;
    require(value.external < externs_ && externals_[value.external] == nullptr, "two inputs or outputs are one");
    require(!value.constant && value.ready, "an output has no elements");
    externals_[value.external] = &value;
  }

  // XNNPACK expects that a value is written once, before it is read.
  void check_node(const Table& node) {
    const auto kind = node.scalar<std::uint8_t>(xnn::XNode::kXnodeUnionType);
    require(kind >= 1 && kind <= xnn::kNodeValues.size(), "a node is of an unknown kind");
    const Table fields = node.table(xnn::XNode::kXnodeUnion);
    const auto& [inputs, outputs] = xnn::kNodeValues[kind - 1U];
    const std::size_t joined = joined_values(kind);
    for (std::size_t i = 0; i < inputs.size() && inputs[i] >= 0 && (joined == 0 || i < joined); ++i) {
      const auto id = fields.scalar<std::uint32_t>(inputs[i]);
      if (id == kNoValue) continue;
      xnnpack::Value& value = values_[number(id)];
      require(value.ready, "a node reads a value before it is written");
      (xnnpack::packs(kind, i) ? value.packed : value.read) = true;
      require(!value.named || !value.packed || !value.read, "a node reads a constant that another one packs");
    }
    check_node_shapes(kind, fields, values_);
    for (std::size_t i = 0; i < outputs.size() && outputs[i] >= 0; ++i) {
      xnnpack::Value& value = values_[number(fields.scalar<std::uint32_t>(outputs[i]))];
      require(!value.ready, "a node writes a value that has elements already");
      value.ready = true;
    }
  }

  // Returns how many values a node joins; 0 for other kinds of nodes.
  static std::size_t joined_values(std::uint8_t kind) {
    switch (kind) {
      case Node::kXNNConcatenate2:
        return 2;
      case Node::kXNNConcatenate3:
        return 3;
      case Node::kXNNConcatenate4:
        return 4;
      case Node::kXNNConcatenate5:
        return 5;
      default:
        return 0;
    }
  }

  std::uint64_t constant_bytes_;
  const NamedRead& read_;
  std::vector<Table> constants_;
  std::uint32_t externs_;
  std::vector<xnnpack::Value> values_;
  std::vector<const xnnpack::Value*> externals_;  // by their number
};

}  // namespace

void check_xnnpack(Bytes blob, const std::vector<std::vector<DelegateArgument>>& calls, const NamedRead& read) {
  constexpr std::size_t kHeaderEnd = 30;
  if (blob.size() < kHeaderEnd || !std::equal(blob.begin() + 4, blob.begin() + 8, "XH00")) {
    const bool plain = blob.size() >= 8 && std::equal(blob.begin() + 4, blob.begin() + 7, "XN0");
    return require(!plain, "it has no header");
  }
  const std::uint64_t begin = flatbuffer::read<std::uint32_t>(blob, 10);
  const std::uint64_t size = flatbuffer::read<std::uint32_t>(blob, 14);
  const std::uint64_t constants = flatbuffer::read<std::uint32_t>(blob, 18);
  const auto constant_bytes = flatbuffer::read<std::uint64_t>(blob, 22);
  require(begin <= blob.size() && size <= blob.size() - begin && constants <= blob.size() &&
              constant_bytes <= blob.size() - constants,
          "its header claims more bytes than it has");
  const flatbuffer::Buffer buffer(blob.subspan(begin, size));
  const Table graph = Table::root(buffer);
  const GraphCheck check(graph, constant_bytes, read);
  for (const std::vector<DelegateArgument>& each : calls) check.check_call(each);
}

}  // namespace modelbuild
