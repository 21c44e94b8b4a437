#include "pte/chains.hpp"

#include "pte/schema.hpp"

namespace modelbuild {
namespace {

using flatbuffer::index;
using flatbuffer::malformed;
using flatbuffer::Table;
using Calls = schema::InstructionArguments;
using Kinds = schema::KernelTypes;

std::string operator_name(const Table& table) {
  const std::string overload = table.name(schema::Operator::kOverload);
  return table.name(schema::Operator::kName) + (overload.empty() ? "" : "." + overload);
}

class ChainsCheck {
 public:
  ChainsCheck(const Table& plan, std::vector<PlanValue>* values)
      : values_(*values), delegates_(plan.length(schema::ExecutionPlan::kDelegates)), becomes_(values->size()) {
    for (const Table& each : plan.tables(schema::ExecutionPlan::kOperators)) operators_.push_back(operator_name(each));
    for (const Table& chain : plan.tables(schema::ExecutionPlan::kChains)) {
      if (!chain.has(schema::Chain::kInstructions)) malformed("it lacks its instructions");
      const std::vector<Table> instructions = chain.tables(schema::Chain::kInstructions);
      begin_ = steps_.size();
      end_ = begin_ + instructions.size();
      for (const Table& each : instructions) {
        read(each.scalar<std::uint8_t>(schema::Instruction::kInstrArgsType),
             each.table(schema::Instruction::kInstrArgs));
      }
    }
  }

  DelegateCalls check() {
    spread_constants();
    for (const auto& [name, arguments] : kernel_calls_) check_kernel_call(operators_[name], arguments, values_);
    check_moves(steps_, values_);
    return std::move(delegate_calls_);
  }

 private:
  std::size_t value(std::int32_t number) const { return index(number, values_.size(), "value"); }

  void read(std::uint8_t type, const Table& call) {
    Step& step = steps_.emplace_back();
    step.next.push_back(steps_.size());
    switch (type) {
      case Calls::kKernelCall:
        return read_kernel_call(call);
      case Calls::kDelegateCall: {
        const auto delegate = call.scalar<std::int32_t>(schema::DelegateCall::kDelegateIndex);
        delegate_calls_[index(delegate, delegates_, "delegate")].push_back(
            arguments(call, schema::DelegateCall::kArgs));
        return;
      }
      case Calls::kMoveCall:
        return read_move(value(call.scalar<std::int32_t>(schema::MoveCall::kMoveFrom)),
                         value(call.scalar<std::int32_t>(schema::MoveCall::kMoveTo)));
      case Calls::kJumpFalseCall:
        step.reads.push_back(value(call.scalar<std::int32_t>(schema::JumpFalseCall::kCondValueIndex)));
        // A jump to the end of the instructions is valid.
        step.next.push_back(begin_ + index(call.scalar<std::int32_t>(schema::JumpFalseCall::kDestinationInstruction),
                                           end_ - begin_ + 1, "instruction"));
        return;
      case Calls::kFreeCall:
        // A freed tensor has no memory, and any kernel may read it after that.
        malformed("it frees a tensor");
      default:
        malformed("an instruction is of the unknown kind " + std::to_string(type));
    }
  }

  void read_move(std::size_t from, std::size_t to) {
    if (values_[to].kind != values_[from].kind && values_[to].kind != Kinds::kNull)
      malformed("a move changes the kind of a value");
    steps_.back().reads.push_back(from);
    steps_.back().moves_to.push_back(to);
    values_[to].computed = true;
    becomes_[from].push_back(to);
  }

  void read_kernel_call(const Table& call) {
    const std::size_t number =
        index(call.scalar<std::int32_t>(schema::KernelCall::kOpIndex), operators_.size(), "operator");
    std::vector<std::int32_t> found = arguments(call, schema::KernelCall::kArgs);
    if (is_view(operators_[number]) && found.size() > 1)
      read_view(static_cast<std::size_t>(found.front()), static_cast<std::size_t>(found.back()));
    if (!found.empty()) values_[static_cast<std::size_t>(found.back())].computed = true;
    kernel_calls_.emplace_back(number, std::move(found));
  }

  void read_view(std::size_t base, std::size_t view) {
    const Place& one = values_[base].place;
    const Place& other = values_[view].place;
    if (one.planned && (!other.planned || one.memory != other.memory || one.begin != other.begin))
      malformed("a view does not lie in the memory of its tensor");
    if (values_[base].element != values_[view].element) malformed("a view has elements of another size");
    becomes_[base].push_back(view);
  }

  std::vector<std::int32_t> arguments(const Table& call, int field) {
    if (!call.has(field)) malformed("a call has no arguments");
    std::vector<std::int32_t> found = call.scalars<std::int32_t>(field);
    for (const std::int32_t each : found) {
      const std::size_t at = value(each);
      steps_.back().reads.push_back(at);
      for (const std::int32_t item : values_[at].items) {
        if (item >= 0) steps_.back().reads.push_back(static_cast<std::size_t>(item));
      }
    }
    return found;
  }

  // Marks the tensors that moves and views can make constants.
  void spread_constants() {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].constant) left.push_back(i);
    }
    while (!left.empty()) {
      const std::size_t from = left.back();
      left.pop_back();
      for (const std::size_t to : becomes_[from]) {
        if (!values_[to].constant) left.push_back(to);
        values_[to].constant = true;
      }
    }
  }

  std::vector<PlanValue>& values_;
  std::size_t delegates_;
  std::vector<std::string> operators_;
  std::size_t begin_ = 0;  // the instructions of this chain
  std::size_t end_ = 0;
  std::vector<Step> steps_;
  std::vector<std::pair<std::size_t, std::vector<std::int32_t>>> kernel_calls_;
  DelegateCalls delegate_calls_;
  std::vector<std::vector<std::size_t>> becomes_;  // for each value, those that moves and views give its memory
};

}  // namespace

DelegateCalls check_chains(const flatbuffer::Table& plan, std::vector<PlanValue>* values) {
  return ChainsCheck(plan, values).check();
}

}  // namespace modelbuild
