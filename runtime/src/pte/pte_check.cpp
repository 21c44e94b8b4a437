// ExecuTorch's own verification checks only that a program is a flatbuffer of its schema, which allows nearly any field
// to be missing and any number in a field. This file checks the other assumptions of loading a method.
#include <algorithm>
#include <string>

#include "pte/pte.hpp"
#include "pte/schema.hpp"
#include "pte/segments.hpp"

namespace modelbuild {
namespace {

using flatbuffer::Malformed;
using flatbuffer::Table;
using Kinds = schema::KernelTypes;
using Calls = schema::InstructionArguments;
using Plan = schema::ExecutionPlan;

[[noreturn]] void malformed(const std::string& message) { throw Malformed(message); }

std::vector<Table> tables(const Table& owner, int field, const char* name) {
  if (!owner.has(field)) malformed(std::string("it lacks its ") + name);
  return owner.tables(field);
}

std::size_t index(std::int64_t number, std::size_t count, const char* what) {
  if (number < 0 || static_cast<std::uint64_t>(number) >= count) {
    malformed(std::string("it names ") + what + " " + std::to_string(number) + " of " + std::to_string(count));
  }
  return static_cast<std::size_t>(number);
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

  Data(const Table& program, const PteFile& file)
      : segments(segment_sizes(program.tables(schema::Program::kSegments), file.base(), file.size())) {
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
    given_.resize(values_.size(), false);
  }

  void check() {
    for (const std::int32_t number : plan_.scalars<std::int32_t>(Plan::kInputs)) check_input(number);
    for (const std::int32_t number : plan_.scalars<std::int32_t>(Plan::kOutputs)) given_[value(number)] = true;
    for (const Table& each : values_) check_value(each);
    for (const Table& each : plan_.tables(Plan::kDelegates)) check_delegate(each);
    operators_ = plan_.tables(Plan::kOperators).size();
    for (const Table& each : plan_.tables(Plan::kOperators)) {
      if (each.name(schema::Operator::kName).empty()) malformed("an operator has no name");
    }
    delegates_ = plan_.length(Plan::kDelegates);
    for (const Table& chain : tables(plan_, Plan::kChains, "instructions")) check_chain(chain);
  }

 private:
  std::size_t value(std::int64_t number) const { return index(number, values_.size(), "value"); }
  std::uint8_t kind(std::size_t number) const { return values_[number].scalar<std::uint8_t>(schema::EValue::kValType); }

  // ExecuTorch copies inputs to the program's memory for them.
  void check_input(std::int32_t number) {
    const std::size_t at = value(number);
    given_[at] = true;
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

  void check_value(const Table& value) {
    const auto type = value.scalar<std::uint8_t>(schema::EValue::kValType);
    if (type < Kinds::kNull || type > Kinds::kOptionalTensorList)
      malformed("a value is of the unknown kind " + std::to_string(type));
    if (type == Kinds::kNull) return;
    const Table inner = value.table(schema::EValue::kVal);
    switch (type) {
      case Kinds::kTensor:
        return check_tensor(inner);
      case Kinds::kString:
        return check_not_empty(inner.has(schema::String::kStringVal));
      case Kinds::kDoubleList:
        return check_not_empty(inner.has(schema::DoubleList::kItems));
      case Kinds::kBoolList:
        return check_not_empty(inner.has(schema::BoolList::kItems));
      case Kinds::kIntList:
        return check_items(inner.scalars<std::int64_t>(schema::IntList::kItems), inner.has(schema::IntList::kItems),
                           Kinds::kInt, false);
      case Kinds::kTensorList:
        return check_items(inner.scalars<std::int32_t>(schema::TensorList::kItems),
                           inner.has(schema::TensorList::kItems), Kinds::kTensor, false);
      case Kinds::kOptionalTensorList:
        return check_items(inner.scalars<std::int32_t>(schema::OptionalTensorList::kItems),
                           inner.has(schema::OptionalTensorList::kItems), Kinds::kTensor, true);
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

  void check_tensor(const Table& tensor) const {
    if (!tensor.has(schema::Tensor::kSizes) || !tensor.has(schema::Tensor::kDimOrder))
      malformed("a tensor lacks its sizes");
    const TensorSize size =
        tensor_size(tensor, schema::Tensor::kScalarType, schema::Tensor::kSizes, schema::Tensor::kDimOrder);
    if (tensor.scalar<std::int32_t>(schema::Tensor::kStorageOffset) != 0)
      malformed("a tensor begins inside of its memory");
    if (!size.bytes) return;  // of an element type that only delegates support
    const auto number = tensor.scalar<std::uint32_t>(schema::Tensor::kDataBufferIdx);
    if (tensor.has(schema::Tensor::kAllocationInfo))
      check_memory(tensor.table(schema::Tensor::kAllocationInfo), *size.bytes);
    if (external(tensor)) {
      if (tensor.table(schema::Tensor::kExtraTensorInfo).name(schema::ExtraTensorInfo::kFullyQualifiedName).empty())
        malformed("a tensor outside of the program has no name");
    } else if (number != 0 && *size.bytes > room(tensor, number)) {
      malformed("a constant of " + std::to_string(*size.bytes) + " bytes ends after its segment");
    }
  }

  void check_memory(const Table& place, std::uint64_t bytes) const {
    const std::size_t memory =
        index(place.scalar<std::uint32_t>(schema::AllocationDetails::kMemoryId), memory_.size(), "memory");
    const std::uint64_t offset =
        (std::uint64_t{place.scalar<std::uint32_t>(schema::AllocationDetails::kMemoryOffsetHigh)} << 32) |
        place.scalar<std::uint32_t>(schema::AllocationDetails::kMemoryOffsetLow);
    const auto size = static_cast<std::uint64_t>(memory_[memory]);
    if (memory == 0 || offset > size || bytes > size - offset)
      malformed("a tensor does not lie in the memory planned for it");
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

  void check_chain(const Table& chain) {
    const std::vector<Table> instructions = tables(chain, schema::Chain::kInstructions, "instructions");
    // The destination of a move in control flow has no earlier memory.
    for (const Table& each : instructions) {
      if (each.scalar<std::uint8_t>(schema::Instruction::kInstrArgsType) == Calls::kMoveCall) {
        given_[value(each.table(schema::Instruction::kInstrArgs).scalar<std::int32_t>(schema::MoveCall::kMoveTo))] =
            true;
      }
    }
    for (const Table& each : instructions) {
      check_call(each.scalar<std::uint8_t>(schema::Instruction::kInstrArgsType),
                 each.table(schema::Instruction::kInstrArgs), instructions.size());
    }
  }

  void check_call(std::uint8_t type, const Table& call, std::size_t instructions) const {
    switch (type) {
      case Calls::kKernelCall:
        index(call.scalar<std::int32_t>(schema::KernelCall::kOpIndex), operators_, "operator");
        return check_arguments(call, schema::KernelCall::kArgs);
      case Calls::kDelegateCall:
        index(call.scalar<std::int32_t>(schema::DelegateCall::kDelegateIndex), delegates_, "delegate");
        return check_arguments(call, schema::DelegateCall::kArgs);
      case Calls::kMoveCall:
        value(call.scalar<std::int32_t>(schema::MoveCall::kMoveFrom));
        return;  // the other one is checked already
      case Calls::kJumpFalseCall:
        value(call.scalar<std::int32_t>(schema::JumpFalseCall::kCondValueIndex));
        // A jump to the end of the instructions is valid.
        index(call.scalar<std::int32_t>(schema::JumpFalseCall::kDestinationInstruction), instructions + 1,
              "instruction");
        return;
      case Calls::kFreeCall:
        if (kind(value(call.scalar<std::int32_t>(schema::FreeCall::kValueIndex))) != Kinds::kTensor)
          malformed("a freed value is not a tensor");
        return;
      default:
        malformed("an instruction is of the unknown kind " + std::to_string(type));
    }
  }

  void check_arguments(const Table& call, int arguments) const {
    if (!call.has(arguments)) malformed("a call has no arguments");
    for (const std::int32_t argument : call.scalars<std::int32_t>(arguments)) check_argument(value(argument));
  }

  void check_argument(std::size_t number) const {
    if (kind(number) != Kinds::kTensor || given_[number]) return;
    const Table tensor = values_[number].table(schema::EValue::kVal);
    const bool unbounded =
        tensor.scalar<std::int8_t>(schema::Tensor::kShapeDynamism) == schema::TensorShapeDynamism::kDynamicUnbound;
    if (!unbounded && !tensor.has(schema::Tensor::kAllocationInfo) &&
        tensor.scalar<std::uint32_t>(schema::Tensor::kDataBufferIdx) == 0 && !external(tensor)) {
      malformed("a tensor has no memory, and is no input or output");
    }
  }

  const Table& plan_;
  const Data& data_;
  std::vector<Table> values_;
  std::vector<std::int64_t> memory_;  // the bytes of each planned buffer; index 0 is no buffer
  std::vector<bool> given_;           // values whose memory is not planned
  std::size_t operators_ = 0;
  std::size_t delegates_ = 0;
};

}  // namespace

void check_pte(const PteFile& file) {
  const Table program = file.program();
  const Data data(program, file);
  const std::vector<Table> methods = tables(program, schema::Program::kExecutionPlan, "methods");
  if (methods.empty()) malformed("it has no methods");
  for (const Table& each : methods) PlanCheck(each, data).check();
  for (const Table& entry : program.tables(schema::Program::kNamedData)) {
    if (entry.name(schema::NamedData::kKey).empty()) malformed("data have no key");
    index(entry.scalar<std::uint32_t>(schema::NamedData::kSegmentIndex), data.segments.size(), "segment");
  }
}

}  // namespace modelbuild
