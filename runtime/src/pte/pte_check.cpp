// ExecuTorch's own verification checks only that a program is a flatbuffer of its schema, which allows nearly any field
// to be missing and any number in a field. This file checks the other assumptions of loading a method.
#include <algorithm>
#include <string>

#include "pte/pte.hpp"
#include "pte/segments.hpp"

namespace modelbuild {
namespace {

using flatbuffer::Malformed;
using flatbuffer::Table;

// Members of the union KernelTypes.
enum Kind : std::uint8_t { kNull = 1, kInt, kBool, kDouble, kTensor, kString, kIntList, kDoubleList, kBoolList };
enum : std::uint8_t { kTensorList = 10, kOptionalTensorList };

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

// Returns for constants, or the initial state of buffers, the bytes from the start of each to its segment's end.
std::vector<std::uint64_t> rooms(const Table& offsets, const std::vector<std::uint64_t>& segments) {
  const std::uint64_t size = segments[index(offsets.scalar<std::uint32_t>(0), segments.size(), "segment")];
  std::vector<std::uint64_t> found = offsets.scalars<std::uint64_t>(1);
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
      : segments(segment_sizes(program.tables(4), file.base(), file.size())) {
    for (const Table& each : program.tables(3)) blobs.push_back(each.length(0));
    for (const Table& each : program.tables(2)) constants.push_back(each.length(0));
    // Index 0 is no constant.
    if (program.has(5) && program.table(5).length(1) > 1) {
      if (!constants.empty()) malformed("its constants are in two places");
      constants = rooms(program.table(5), segments);
    }
    for (const Table& each : program.tables(6)) buffers.push_back(rooms(each, segments));
  }
};

class PlanCheck {
 public:
  PlanCheck(const Table& plan, const Data& data)
      : plan_(plan), data_(data), values_(tables(plan, 2, "values")), memory_(plan.scalars<std::int64_t>(8)) {
    if (plan.name(0).empty()) malformed("a method has no name");
    for (const int field : {3, 4, 8}) {
      if (!plan.has(field)) malformed("a method lacks its field " + std::to_string(field));
    }
    std::int64_t sum = 0;
    for (const std::int64_t bytes : memory_) {
      if (bytes < 0 || __builtin_add_overflow(sum, bytes, &sum)) malformed("its plan of memory cannot be counted");
    }
    for (const Table& each : plan.tables(9)) {
      index(each.scalar<std::int32_t>(0), memory_.size(), "memory");
      if (each.scalar<std::int8_t>(2) < 0) malformed("its plan of memory names a negative device");
    }
    given_.resize(values_.size(), false);
  }

  void check() {
    for (const std::int32_t number : plan_.scalars<std::int32_t>(3)) check_input(number);
    for (const std::int32_t number : plan_.scalars<std::int32_t>(4)) given_[value(number)] = true;
    for (const Table& each : values_) check_value(each);
    for (const Table& each : plan_.tables(7)) check_delegate(each);
    operators_ = plan_.tables(6).size();
    for (const Table& each : plan_.tables(6)) {
      if (each.name(0).empty()) malformed("an operator has no name");
    }
    delegates_ = plan_.length(7);
    for (const Table& chain : tables(plan_, 5, "instructions")) check_chain(chain);
  }

 private:
  std::size_t value(std::int64_t number) const { return index(number, values_.size(), "value"); }
  std::uint8_t kind(std::size_t number) const { return values_[number].scalar<std::uint8_t>(0); }

  // ExecuTorch copies inputs to the program's memory for them.
  void check_input(std::int32_t number) {
    const std::size_t at = value(number);
    given_[at] = true;
    if (kind(at) != kTensor || !values_[at].has(1)) return;
    const Table tensor = values_[at].table(1);
    const bool planned = tensor.has(6);
    if (!planned && (tensor.scalar<std::uint32_t>(5) != 0 || external(tensor))) malformed("an input is a constant");
  }

  static bool external(const Table& tensor) { return tensor.has(9) && tensor.table(9).scalar<std::int8_t>(2) == 1; }

  void check_value(const Table& value) {
    const auto type = value.scalar<std::uint8_t>(0);
    if (type < kNull || type > kOptionalTensorList) malformed("a value is of the unknown kind " + std::to_string(type));
    if (type == kNull) return;
    const Table inner = value.table(1);
    switch (type) {
      case kTensor:
        return check_tensor(inner);
      case kString:
      case kDoubleList:
      case kBoolList:
        if (!inner.has(0)) malformed("a value is empty");
        return;
      case kIntList:
        return check_items(inner.scalars<std::int64_t>(0), inner.has(0), kInt, false);
      case kTensorList:
      case kOptionalTensorList:
        return check_items(inner.scalars<std::int32_t>(0), inner.has(0), kTensor, type == kOptionalTensorList);
      default:
        return;
    }
  }

  template <typename Items>
  void check_items(const Items& items, bool there, Kind wanted, bool optional) const {
    if (!there) malformed("a list has no items");
    for (const auto item : items) {
      if (optional && item == -1) continue;
      const std::uint8_t found = kind(value(item));
      if (found != wanted && !(optional && found == kNull)) malformed("a list has an item of another kind");
    }
  }

  void check_tensor(const Table& tensor) const {
    if (!tensor.has(2) || !tensor.has(3)) malformed("a tensor lacks its sizes");
    const TensorSize size = tensor_size(tensor, 0, 2, 3);
    if (tensor.scalar<std::int32_t>(1) != 0) malformed("a tensor begins inside of its memory");
    if (!size.bytes) return;  // of an element type that only delegates support
    const auto number = tensor.scalar<std::uint32_t>(5);
    if (tensor.has(6)) check_memory(tensor.table(6), *size.bytes);
    if (external(tensor)) {
      if (tensor.table(9).name(1).empty()) malformed("a tensor outside of the program has no name");
    } else if (number != 0 && *size.bytes > room(tensor, number)) {
      malformed("a constant of " + std::to_string(*size.bytes) + " bytes ends after its segment");
    }
  }

  void check_memory(const Table& place, std::uint64_t bytes) const {
    const std::size_t memory = index(place.scalar<std::uint32_t>(0), memory_.size(), "memory");
    const std::uint64_t offset = (std::uint64_t{place.scalar<std::uint32_t>(2)} << 32) | place.scalar<std::uint32_t>(1);
    const auto size = static_cast<std::uint64_t>(memory_[memory]);
    if (memory == 0 || offset > size || bytes > size - offset)
      malformed("a tensor does not lie in the memory planned for it");
  }

  std::uint64_t room(const Table& tensor, std::uint32_t number) const {
    if (!tensor.has(6)) return data_.constants[index(number, data_.constants.size(), "constant")];
    const std::uint64_t at = tensor.has(9) ? tensor.table(9).scalar<std::uint64_t>(0) : 0;
    const auto& states = data_.buffers[index(static_cast<std::int64_t>(at), data_.buffers.size(), "buffer")];
    return states[index(number, states.size(), "state of a buffer")];
  }

  void check_delegate(const Table& delegate) const {
    if (delegate.name(0).empty()) malformed("a delegate has no backend");
    const Table blob = delegate.table(1);
    const auto place = blob.scalar<std::int8_t>(0);
    if (place != 0 && place != 1) malformed("a delegate's blob has an unknown location");
    const std::size_t there = place == 1 ? data_.segments.size() : data_.blobs.size();
    index(blob.scalar<std::uint32_t>(1), there, "blob");
    for (const Table& spec : tables(delegate, 2, "delegate's specification")) {
      if (!spec.has(0) || !spec.has(1)) malformed("a delegate's specification lacks a key or a value");
    }
  }

  void check_chain(const Table& chain) {
    const std::vector<Table> instructions = tables(chain, 2, "instructions");
    // The destination of a move in control flow has no memory before.
    for (const Table& each : instructions) {
      if (each.scalar<std::uint8_t>(0) == instruction::kMoveCall)
        given_[value(each.table(1).scalar<std::int32_t>(1))] = true;
    }
    for (const Table& each : instructions) check_call(each.scalar<std::uint8_t>(0), each.table(1), instructions.size());
  }

  void check_call(std::uint8_t type, const Table& call, std::size_t instructions) const {
    const auto first = call.scalar<std::int32_t>(0);
    switch (type) {
      case instruction::kKernelCall:
      case instruction::kDelegateCall:
        index(first, type == instruction::kKernelCall ? operators_ : delegates_,
              type == instruction::kKernelCall ? "operator" : "delegate");
        if (!call.has(1)) malformed("a call has no arguments");
        for (const std::int32_t argument : call.scalars<std::int32_t>(1)) check_argument(value(argument));
        return;
      case instruction::kMoveCall:
        value(first);
        return;  // the other one is checked already
      case instruction::kJumpFalseCall:
        value(first);
        // A jump to the end of the instructions is valid.
        index(call.scalar<std::int32_t>(1), instructions + 1, "instruction");
        return;
      case instruction::kFreeCall:
        if (kind(value(first)) != kTensor) malformed("a freed value is not a tensor");
        return;
      default:
        malformed("an instruction is of the unknown kind " + std::to_string(type));
    }
  }

  void check_argument(std::size_t number) const {
    if (kind(number) != kTensor || given_[number]) return;
    const Table tensor = values_[number].table(1);
    const bool unbounded = tensor.scalar<std::int8_t>(8) == 2;
    if (!unbounded && !tensor.has(6) && tensor.scalar<std::uint32_t>(5) == 0 && !external(tensor)) {
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
  const std::vector<Table> methods = tables(program, 1, "methods");
  if (methods.empty()) malformed("it has no methods");
  for (const Table& each : methods) PlanCheck(each, data).check();
  for (const Table& entry : program.tables(7)) {
    if (entry.name(0).empty()) malformed("data have no key");
    index(entry.scalar<std::uint32_t>(1), data.segments.size(), "segment");
  }
}

}  // namespace modelbuild
