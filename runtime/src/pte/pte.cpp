// The format is executorch/schema/program.fbs (identifier ET12) after an optional extended header ("eh00") at byte 8,
// as executorch 1.5.1 writes it.
#include "pte/pte.hpp"

#include <cstring>
#include <set>
#include <utility>

#include "method/dtype.hpp"
#include "pte/schema.hpp"
#include "pte/segments.hpp"

namespace modelbuild {
namespace {

using flatbuffer::Malformed;
using flatbuffer::Table;
using Reference = schema::BackendDelegateDataReference;

template <typename Items>
const auto& item(const Items& items, std::int64_t index) {
  if (index < 0 || index >= static_cast<std::int64_t>(items.size())) {
    throw Malformed("index " + std::to_string(index) + " of " + std::to_string(items.size()));
  }
  return items[static_cast<std::size_t>(index)];
}

Port tensor(const Table& table) {
  Port port;
  const auto number = table.scalar<std::int8_t>(schema::Tensor::kScalarType);
  if (!element_size(number)) {
    throw Malformed("element type " + std::to_string(number) + ", which this runtime does not support");
  }
  port.dtype = static_cast<DType>(number);
  TensorSize size = tensor_size(table, schema::Tensor::kScalarType, schema::Tensor::kSizes, schema::Tensor::kDimOrder);
  const bool bounded =
      table.scalar<std::int8_t>(schema::Tensor::kShapeDynamism) != schema::TensorShapeDynamism::kStatic;
  for (const std::int32_t each : size.sizes) port.shape.push_back({bounded ? 0 : each, each, ""});
  port.dim_order = std::move(size.dim_order);
  port.planned = table.has(schema::Tensor::kAllocationInfo);
  if (table.has(schema::Tensor::kExtraTensorInfo)) {
    const Table extra = table.table(schema::Tensor::kExtraTensorInfo);
    port.device = {extra.scalar<std::int8_t>(schema::ExtraTensorInfo::kDeviceType) != schema::DeviceType::kCpu,
                   extra.scalar<std::int8_t>(schema::ExtraTensorInfo::kDeviceIndex)};
  }
  return port;
}

Port value(const Table& table) {
  static constexpr Kind kKinds[] = {Kind::kNone, Kind::kInt, Kind::kBool, Kind::kFloat, Kind::kTensor, Kind::kString};
  const auto number = table.scalar<std::uint8_t>(schema::EValue::kValType);
  Port port;
  port.kind =
      number >= schema::KernelTypes::kNull && number <= schema::KernelTypes::kString ? kKinds[number - 1] : Kind::kList;
  if (!table.has(schema::EValue::kVal)) {
    port.kind = Kind::kNone;
    return port;
  }
  const Table inner = table.table(schema::EValue::kVal);
  switch (port.kind) {
    case Kind::kTensor:
      return tensor(inner);
    case Kind::kInt:
      port.constant = inner.scalar<std::int64_t>(schema::Int::kIntVal);
      break;
    case Kind::kBool:
      port.constant = inner.scalar<std::uint8_t>(schema::Bool::kBoolVal) != 0;
      break;
    case Kind::kFloat:
      port.constant = inner.scalar<double>(schema::Double::kDoubleVal);
      break;
    case Kind::kString:
      port.constant = std::string(inner.string(schema::String::kStringVal));
      break;
    default:
      break;
  }
  return port;
}

bool is_tensor(const Table& value) {
  return value.scalar<std::uint8_t>(schema::EValue::kValType) == schema::KernelTypes::kTensor &&
         value.has(schema::EValue::kVal);
}

std::uint64_t most_bytes(const Port& port) {
  std::uint64_t bytes = dtype_size(port.dtype);
  for (const Dim& dim : port.shape) bytes *= static_cast<std::uint64_t>(dim.max);
  return bytes;
}

// Computes the bytes that a run on host memory moves, by instruction: the program's own copies, and host memory that
// GPU delegates are called with.
class Moves {
 public:
  Moves(const std::vector<Table>& values, const std::vector<std::int32_t>& inputs, const OnGpu& on_gpu)
      : values_(values), on_gpu_(on_gpu) {
    known_.insert(inputs.begin(), inputs.end());
  }

  void kernel(const std::string& name, const std::vector<std::int32_t>& arguments) {
    if (!arguments.empty() && name == "et_copy::_h2d_copy.out") most.copied_in += bytes(arguments[0]);
    if (!arguments.empty() && name == "et_copy::_d2h_copy.out") most.copied_out += bytes(arguments[0]);
    known_.insert(arguments.begin(), arguments.end());
  }

  void delegate(const std::string& backend, const std::vector<std::int32_t>& arguments) {
    for (const std::int32_t argument : arguments) {
      const Table& table = item(values_, argument);
      if (!is_tensor(table)) continue;
      // This instruction makes any value without an earlier instruction that is not an input or a constant.
      const bool constant =
          table.table(schema::EValue::kVal).scalar<std::uint32_t>(schema::Tensor::kDataBufferIdx) != 0;
      const bool made = known_.insert(argument).second && !constant;
      if (on_gpu_(backend) && !tensor(table.table(schema::EValue::kVal)).device.cuda) {
        (made ? most.staged_out : most.staged_in) += bytes(argument);
      }
    }
  }

  Transfers most;

 private:
  std::uint64_t bytes(std::int32_t index) const {
    const Table& table = item(values_, index);
    return is_tensor(table) ? most_bytes(tensor(table.table(schema::EValue::kVal))) : 0;
  }

  const std::vector<Table>& values_;
  const OnGpu& on_gpu_;
  std::set<std::int32_t> known_;
};

MethodDescription method(const Table& plan, const std::vector<std::uint64_t>& segments,
                         const std::vector<std::uint64_t>& inline_blobs, const OnGpu& on_gpu) {
  MethodDescription found;
  found.name = plan.name(schema::ExecutionPlan::kName);
  const std::vector<Table> values = plan.tables(schema::ExecutionPlan::kValues);
  for (const std::int32_t index : plan.scalars<std::int32_t>(schema::ExecutionPlan::kInputs))
    found.inputs.push_back(value(item(values, index)));
  for (const std::int32_t index : plan.scalars<std::int32_t>(schema::ExecutionPlan::kOutputs))
    found.outputs.push_back(value(item(values, index)));

  std::map<std::string, DelegateInfo> delegates;
  for (const Table& delegate : plan.tables(schema::ExecutionPlan::kDelegates)) {
    DelegateInfo& info = delegates[delegate.name(schema::BackendDelegate::kId)];
    ++info.parts;
    if (delegate.has(schema::BackendDelegate::kProcessed)) {
      const Table where = delegate.table(schema::BackendDelegate::kProcessed);
      info.bytes += item(
          where.scalar<std::int8_t>(Reference::kLocation) == schema::DataLocation::kSegment ? segments : inline_blobs,
          where.scalar<std::uint32_t>(Reference::kIndex));
    }
  }
  for (auto& [backend, info] : delegates) {
    info.backend = backend;
    found.delegates.push_back(info);
  }

  std::vector<std::string> names;
  for (const Table& op : plan.tables(schema::ExecutionPlan::kOperators)) {
    std::string name = op.name(schema::Operator::kName);
    if (const std::string overload = op.name(schema::Operator::kOverload); !overload.empty()) name += "." + overload;
    names.push_back(std::move(name));
  }
  std::map<std::int32_t, const std::string*> users;  // CPU kernels, by a tensor that they read or write
  Moves moves(values, plan.scalars<std::int32_t>(schema::ExecutionPlan::kInputs), on_gpu);
  const std::vector<Table> backends = plan.tables(schema::ExecutionPlan::kDelegates);
  for (const Table& chain : plan.tables(schema::ExecutionPlan::kChains)) {
    for (const Table& instruction : chain.tables(schema::Chain::kInstructions)) {
      const auto kind = instruction.scalar<std::uint8_t>(schema::Instruction::kInstrArgsType);
      if (!instruction.has(schema::Instruction::kInstrArgs)) continue;
      const Table call = instruction.table(schema::Instruction::kInstrArgs);
      if (kind == schema::InstructionArguments::kDelegateCall) {
        moves.delegate(item(backends, call.scalar<std::int32_t>(schema::DelegateCall::kDelegateIndex))
                           .name(schema::BackendDelegate::kId),
                       call.scalars<std::int32_t>(schema::DelegateCall::kArgs));
      }
      found.branches = found.branches || kind == schema::InstructionArguments::kJumpFalseCall;
      if (kind != schema::InstructionArguments::kKernelCall) continue;
      const std::string& name = item(names, call.scalar<std::int32_t>(schema::KernelCall::kOpIndex));
      ++found.operators[name];
      moves.kernel(name, call.scalars<std::int32_t>(schema::KernelCall::kArgs));
      if (name.rfind("et_copy::", 0) == 0) continue;
      for (const std::int32_t argument : call.scalars<std::int32_t>(schema::KernelCall::kArgs))
        users.emplace(argument, &name);
    }
  }
  const auto note = [&](const std::vector<std::int32_t>& indices, std::vector<Port>* ports) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (const auto user = users.find(indices[i]); user != users.end()) (*ports)[i].host_kernel = *user->second;
    }
  };
  note(plan.scalars<std::int32_t>(schema::ExecutionPlan::kInputs), &found.inputs);
  note(plan.scalars<std::int32_t>(schema::ExecutionPlan::kOutputs), &found.outputs);
  for (const Port& port : found.inputs) {
    const bool callers = port.kind == Kind::kTensor && port.device.cuda && !port.planned;
    if (callers) moves.most.copied_in += most_bytes(port);
  }
  found.most = moves.most;
  for (const std::int64_t bytes : plan.scalars<std::int64_t>(schema::ExecutionPlan::kNonConstBufferSizes))
    found.planned_bytes += bytes;
  return found;
}

}  // namespace

PteFile::PteFile(flatbuffer::Bytes file) : bytes_(file) {
  if (file.empty()) throw Malformed("the file is empty");
  if (file.size() < 8 || std::memcmp(file.data() + 4, "ET", 2) != 0) {
    throw Malformed("it does not start like a .pte");
  }
  std::uint64_t size = file.size();
  if (file.size() >= 32 && std::memcmp(file.data() + 8, "eh00", 4) == 0) {
    size = flatbuffer::read<std::uint64_t>(file, 16);
    base_ = flatbuffer::read<std::uint64_t>(file, 24);
    if (size < 8 || size > file.size()) {
      throw Malformed("its header claims " + std::to_string(size) + " bytes of program in a file of " +
                      std::to_string(file.size()));
    }
  }
  buffer_.emplace(file.first(size));
}

Description read_pte(const PteFile& file, const OnGpu& on_gpu) {
  const Table program = file.program();
  const std::vector<std::uint64_t> segments =
      segment_sizes(program.tables(schema::Program::kSegments), file.base(), file.bytes().size());
  std::vector<std::uint64_t> inline_blobs;
  for (const Table& blob : program.tables(schema::Program::kBackendDelegateData))
    inline_blobs.push_back(blob.length(schema::BackendDelegateInlineData::kData));

  Description found;
  found.bytes = file.bytes().size();
  std::set<std::string> external;
  for (const Table& plan : program.tables(schema::Program::kExecutionPlan)) {
    found.methods.push_back(method(plan, segments, inline_blobs, on_gpu));
    for (const Table& each : plan.tables(schema::ExecutionPlan::kValues)) {
      if (!is_tensor(each) || !each.table(schema::EValue::kVal).has(schema::Tensor::kExtraTensorInfo)) continue;
      const Table extra = each.table(schema::EValue::kVal).table(schema::Tensor::kExtraTensorInfo);
      if (extra.scalar<std::int8_t>(schema::ExtraTensorInfo::kLocation) == schema::TensorDataLocation::kExternal) {
        external.insert(extra.name(schema::ExtraTensorInfo::kFullyQualifiedName));
      }
    }
  }
  found.external.assign(external.begin(), external.end());
  return found;
}

Blobs::Blobs(const PteFile& file) {
  const Table program = file.program();
  const std::vector<Table> segments = program.tables(schema::Program::kSegments);
  const std::vector<std::uint64_t> sizes = segment_sizes(segments, file.base(), file.bytes().size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto offset = segments[i].scalar<std::uint64_t>(schema::DataSegment::kOffset);
    segments_.push_back(file.bytes().subspan(file.base() + offset, sizes[i]));
  }
  for (const Table& each : program.tables(schema::Program::kBackendDelegateData))
    inline_.push_back(each.bytes(schema::BackendDelegateInlineData::kData));
}

flatbuffer::Bytes Blobs::of(const Table& delegate) const {
  const Table where = delegate.table(schema::BackendDelegate::kProcessed);
  const bool segment = where.scalar<std::int8_t>(Reference::kLocation) == schema::DataLocation::kSegment;
  return item(segment ? segments_ : inline_, where.scalar<std::uint32_t>(Reference::kIndex));
}

void for_each_blob(const PteFile& file,
                   const std::function<void(const std::string& backend, flatbuffer::Bytes blob)>& act) {
  const Blobs blobs(file);
  for (const Table& plan : file.program().tables(schema::Program::kExecutionPlan)) {
    for (const Table& each : plan.tables(schema::ExecutionPlan::kDelegates)) {
      if (each.has(schema::BackendDelegate::kProcessed)) act(each.name(schema::BackendDelegate::kId), blobs.of(each));
    }
  }
}

}  // namespace modelbuild
