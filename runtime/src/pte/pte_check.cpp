// ExecuTorch's own verification checks only that a program is a flatbuffer of its schema, which allows nearly any field
// to be missing and any number in a field. This file checks the other assumptions of loading a method.
#include <algorithm>
#include <string>

#include "method/dtype.hpp"
#include "pte/chains.hpp"
#include "pte/pte.hpp"
#include "pte/schema.hpp"
#include "pte/segments.hpp"
#include "pte/xnnpack_check.hpp"

namespace modelbuild {
namespace {

using flatbuffer::index;
using flatbuffer::malformed;
using flatbuffer::Table;
using Kinds = schema::KernelTypes;
using Plan = schema::ExecutionPlan;

std::vector<Table> tables(const Table& owner, int field, const char* name) {
  if (!owner.has(field)) malformed(std::string("it lacks its ") + name);
  return owner.tables(field);
}

// Returns, for constants or the initial state of buffers, the bytes from the start of each item to its segment's end.
std::vector<std::uint64_t> rooms(const Table& offsets, const std::vector<std::uint64_t>& segments) {
  const std::uint64_t size = segments[index(offsets.scalar<std::uint32_t>(schema::SubsegmentOffsets::kSegmentIndex),
                                            segments.size(), "segment")];
  std::vector<std::uint64_t> found = offsets.scalars<std::uint64_t>(schema::SubsegmentOffsets::kOffsets);
  for (std::uint64_t& start : found) start = start > size ? 0 : size - start;
  return found;
}

// The bytes of each item that methods refer to by index.
struct Data {
  std::vector<std::uint64_t> segments;
  std::vector<std::uint64_t> blobs;  // of delegates, inside the flatbuffer
  std::vector<std::uint64_t> constants;
  std::vector<std::vector<std::uint64_t>> buffers;
  Blobs blobs_of;
  std::map<std::string, std::uint64_t> named;  // the segment of each key
  mutable ExternalReads external;

  Data(const Table& program, const PteFile& file)
      : segments(segment_sizes(program.tables(schema::Program::kSegments), file.base(), file.bytes().size())),
        blobs_of(file) {
    for (const Table& each : program.tables(schema::Program::kBackendDelegateData)) {
      blobs.push_back(each.length(schema::BackendDelegateInlineData::kData));
    }
    for (const Table& each : program.tables(schema::Program::kConstantBuffer)) {
      constants.push_back(each.length(schema::Buffer::kStorage));
    }
    // Index 0 is no constant.
    if (program.has(schema::Program::kConstantSegment) &&
        program.table(schema::Program::kConstantSegment).length(schema::SubsegmentOffsets::kOffsets) > 1) {
      if (!constants.empty()) malformed("its constants are in two places");
      constants = rooms(program.table(schema::Program::kConstantSegment), segments);
    }
    for (const Table& each : program.tables(schema::Program::kMutableDataSegments))
      buffers.push_back(rooms(each, segments));
    for (const Table& entry : program.tables(schema::Program::kNamedData)) {
      const std::string key = entry.name(schema::NamedData::kKey);
      if (key.empty()) malformed("data have no key");
      const auto segment = entry.scalar<std::uint32_t>(schema::NamedData::kSegmentIndex);
      named[key] = segments[index(segment, segments.size(), "segment")];
    }
  }

  // A program's own data are found before a .ptd's of that name.
  void read_named(const std::string& name, std::uint64_t bytes) const {
    const auto own = named.find(name);
    if (own == named.end()) {
      external[name] = std::max(external[name], bytes);
    } else if (bytes > own->second) {
      malformed("the data '" + name + "' have " + std::to_string(own->second) + " bytes; a partition reads " +
                std::to_string(bytes));
    }
  }
};

class PlanCheck {
 public:
  PlanCheck(const Table& plan, const Data& data)
      : plan_(plan),
        data_(data),
        values_(tables(plan, Plan::kValues, "values")),
        memory_(plan.scalars<std::int64_t>(Plan::kNonConstBufferSizes)) {
    if (plan.name(Plan::kName).empty()) malformed("a method has no name");
    for (const int field : {Plan::kInputs, Plan::kOutputs, Plan::kNonConstBufferSizes}) {
      if (!plan.has(field)) malformed("a method lacks its field " + std::to_string(field));
    }
    std::int64_t sum = 0;
    for (const std::int64_t bytes : memory_) {
      if (bytes < 0 || __builtin_add_overflow(sum, bytes, &sum)) malformed("its plan of memory cannot be counted");
    }
    for (const Table& each : plan.tables(Plan::kNonConstBufferDevice)) {
      index(each.scalar<std::int32_t>(schema::NonConstBufferDevice::kBufferIdx), memory_.size(), "memory");
      if (each.scalar<std::int8_t>(schema::NonConstBufferDevice::kDeviceIndex) < 0)
        malformed("its plan of memory names a negative device");
    }
    planned_.resize(values_.size());
  }

  void check() {
    for (const std::int32_t number : plan_.scalars<std::int32_t>(Plan::kInputs)) check_input(number);
    for (const std::int32_t number : plan_.scalars<std::int32_t>(Plan::kOutputs)) planned_[value(number)].given = true;
    for (std::size_t i = 0; i < values_.size(); ++i) check_value(values_[i], &planned_[i]);
    for (const Table& each : plan_.tables(Plan::kDelegates)) check_delegate(each);
    for (const Table& each : plan_.tables(Plan::kOperators)) {
      if (each.name(schema::Operator::kName).empty()) malformed("an operator has no name");
    }
    tables(plan_, Plan::kChains, "instructions");
    check_partitions(check_chains(plan_, &planned_));
  }

 private:
  std::size_t value(std::int64_t number) const { return index(number, values_.size(), "value"); }
  std::uint8_t kind(std::size_t number) const { return values_[number].scalar<std::uint8_t>(schema::EValue::kValType); }

  // ExecuTorch copies inputs to the program's memory for them.
  void check_input(std::int32_t number) {
    const std::size_t at = value(number);
    planned_[at].given = true;
    if (kind(at) != Kinds::kTensor || !values_[at].has(schema::EValue::kVal)) return;
    const Table tensor = values_[at].table(schema::EValue::kVal);
    const bool planned = tensor.has(schema::Tensor::kAllocationInfo);
    if (!planned && (tensor.scalar<std::uint32_t>(schema::Tensor::kDataBufferIdx) != 0 || external(tensor)))
      malformed("an input is a constant");
  }

  static bool external(const Table& tensor) {
    return tensor.has(schema::Tensor::kExtraTensorInfo) &&
           tensor.table(schema::Tensor::kExtraTensorInfo).scalar<std::int8_t>(schema::ExtraTensorInfo::kLocation) ==
               schema::TensorDataLocation::kExternal;
  }

  void check_value(const Table& value, PlanValue* planned) {
    const auto type = value.scalar<std::uint8_t>(schema::EValue::kValType);
    planned->kind = type;
    if (type < Kinds::kNull || type > Kinds::kOptionalTensorList)
      malformed("a value is of the unknown kind " + std::to_string(type));
    if (type == Kinds::kNull) return;
    const Table inner = value.table(schema::EValue::kVal);
    switch (type) {
      case Kinds::kTensor:
        return check_tensor(inner, planned);
      case Kinds::kString:
        return check_not_empty(inner.has(schema::String::kStringVal));
      case Kinds::kDoubleList:
        return check_not_empty(inner.has(schema::DoubleList::kItems));
      case Kinds::kBoolList:
        return check_not_empty(inner.has(schema::BoolList::kItems));
      case Kinds::kInt:
        planned->number = inner.scalar<std::int64_t>(schema::Int::kIntVal);
        return;
      case Kinds::kIntList:
        planned->ints = inner.scalars<std::int64_t>(schema::IntList::kItems);
        return check_items(planned->ints, inner.has(schema::IntList::kItems), Kinds::kInt, false);
      case Kinds::kTensorList:
        planned->items = inner.scalars<std::int32_t>(schema::TensorList::kItems);
        return check_items(planned->items, inner.has(schema::TensorList::kItems), Kinds::kTensor, false);
      case Kinds::kOptionalTensorList:
        planned->items = inner.scalars<std::int32_t>(schema::OptionalTensorList::kItems);
        return check_items(planned->items, inner.has(schema::OptionalTensorList::kItems), Kinds::kTensor, true);
      default:
        return;
    }
  }

  static void check_not_empty(bool there) {
    if (!there) malformed("a value is empty");
  }

  template <typename Items>
  void check_items(const Items& items, bool there, std::uint8_t wanted, bool optional) const {
    if (!there) malformed("a list has no items");
    for (const auto item : items) {
      if (optional && item == -1) continue;
      const std::uint8_t found = kind(value(item));
      if (found != wanted && !(optional && found == Kinds::kNull)) malformed("a list has an item of another kind");
    }
  }

  void check_tensor(const Table& tensor, PlanValue* planned) const {
    if (!tensor.has(schema::Tensor::kSizes) || !tensor.has(schema::Tensor::kDimOrder))
      malformed("a tensor lacks its sizes");
    const TensorSize size =
        tensor_size(tensor, schema::Tensor::kScalarType, schema::Tensor::kSizes, schema::Tensor::kDimOrder);
    if (tensor.scalar<std::int32_t>(schema::Tensor::kStorageOffset) != 0)
      malformed("a tensor begins inside of its memory");
    for (const std::uint8_t axis : size.dim_order)
      planned->sizes.push_back(static_cast<std::uint32_t>(size.sizes[axis]));
    const auto number = tensor.scalar<std::uint32_t>(schema::Tensor::kDataBufferIdx);
    const bool has_memory = tensor.has(schema::Tensor::kAllocationInfo);
    planned->constant = !has_memory && (number != 0 || external(tensor));
    planned->needs_move = !has_memory && !planned->constant && !planned->given;
    if (!size.bytes) return;  // of an element type that only delegates support
    planned->element = *element_size(tensor.scalar<std::int8_t>(schema::Tensor::kScalarType));
    if (has_memory) planned->place = place(tensor.table(schema::Tensor::kAllocationInfo), *size.bytes);
    if (external(tensor)) {
      if (tensor.table(schema::Tensor::kExtraTensorInfo).name(schema::ExtraTensorInfo::kFullyQualifiedName).empty())
        malformed("a tensor outside of the program has no name");
    } else if (number != 0 && *size.bytes > room(tensor, number)) {
      malformed("a constant of " + std::to_string(*size.bytes) + " bytes ends after its segment");
    }
  }

  Place place(const Table& place, std::uint64_t bytes) const {
    const std::size_t memory =
        index(place.scalar<std::uint32_t>(schema::AllocationDetails::kMemoryId), memory_.size(), "memory");
    const std::uint64_t offset =
        (std::uint64_t{place.scalar<std::uint32_t>(schema::AllocationDetails::kMemoryOffsetHigh)} << 32) |
        place.scalar<std::uint32_t>(schema::AllocationDetails::kMemoryOffsetLow);
    const auto size = static_cast<std::uint64_t>(memory_[memory]);
    if (memory == 0 || offset > size || bytes > size - offset)
      malformed("a tensor does not lie in the memory planned for it");
    return {true, static_cast<std::uint32_t>(memory), offset, offset + bytes};
  }

  std::uint64_t room(const Table& tensor, std::uint32_t number) const {
    if (!tensor.has(schema::Tensor::kAllocationInfo))
      return data_.constants[index(number, data_.constants.size(), "constant")];
    const std::uint64_t at = tensor.has(schema::Tensor::kExtraTensorInfo)
                                 ? tensor.table(schema::Tensor::kExtraTensorInfo)
                                       .scalar<std::uint64_t>(schema::ExtraTensorInfo::kMutableDataSegmentsIdx)
                                 : 0;
    const auto& states = data_.buffers[index(static_cast<std::int64_t>(at), data_.buffers.size(), "buffer")];
    return states[index(number, states.size(), "state of a buffer")];
  }

  void check_delegate(const Table& delegate) const {
    if (delegate.name(schema::BackendDelegate::kId).empty()) malformed("a delegate has no backend");
    const Table blob = delegate.table(schema::BackendDelegate::kProcessed);
    const auto place = blob.scalar<std::int8_t>(schema::BackendDelegateDataReference::kLocation);
    if (place != schema::DataLocation::kInline && place != schema::DataLocation::kSegment)
      malformed("a delegate's blob has an unknown location");
    const std::size_t there = place == schema::DataLocation::kSegment ? data_.segments.size() : data_.blobs.size();
    index(blob.scalar<std::uint32_t>(schema::BackendDelegateDataReference::kIndex), there, "blob");
    for (const Table& spec : tables(delegate, schema::BackendDelegate::kCompileSpecs, "delegate's specification")) {
      if (!spec.has(schema::CompileSpec::kKey) || !spec.has(schema::CompileSpec::kValue))
        malformed("a delegate's specification lacks a key or a value");
    }
  }

  DelegateArgument argument(std::int32_t number) const {
    const PlanValue& value = planned_[static_cast<std::size_t>(number)];
    return {value.kind == Kinds::kTensor, value.constant, value.element, value.sizes};
  }

  // Delegates of modelbuild check their blobs themselves.
  void check_partitions(const DelegateCalls& calls) const {
    const std::vector<Table> delegates = plan_.tables(Plan::kDelegates);
    for (const auto& [number, each] : calls) {
      if (delegates[number].name(schema::BackendDelegate::kId) != "XnnpackBackend") continue;
      std::vector<std::vector<DelegateArgument>> arguments;
      for (const std::vector<std::int32_t>& values : each) {
        std::vector<DelegateArgument>& added = arguments.emplace_back();
        for (const std::int32_t value : values) added.push_back(argument(value));
      }
      check_xnnpack(data_.blobs_of.of(delegates[number]), arguments,
                    [this](const std::string& name, std::uint64_t bytes) { data_.read_named(name, bytes); });
    }
  }

  const Table& plan_;
  const Data& data_;
  std::vector<Table> values_;
  std::vector<std::int64_t> memory_;  // the bytes of each planned buffer; index 0 is no buffer
  std::vector<PlanValue> planned_;
};

}  // namespace

ExternalReads check_pte(const PteFile& file) {
  const Table program = file.program();
  const Data data(program, file);
  const std::vector<Table> methods = tables(program, schema::Program::kExecutionPlan, "methods");
  if (methods.empty()) malformed("it has no methods");
  for (const Table& each : methods) PlanCheck(each, data).check();
  return data.external;
}

}  // namespace modelbuild
