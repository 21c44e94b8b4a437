#include "pte/calls.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "pte/operators.hpp"
#include "pte/schema.hpp"

namespace modelbuild {
namespace {

using flatbuffer::Malformed;
using Kinds = schema::KernelTypes;

[[noreturn]] void bad_call(const std::string& operator_name, const std::string& problem) {
  throw Malformed("a call of " + operator_name + ": " + problem);
}

std::optional<std::string_view> signature(std::string_view name) {
  const auto found = std::lower_bound(kOperators.begin(), kOperators.end(), name,
                                      [](const auto& each, std::string_view wanted) { return each.first < wanted; });
  if (found == kOperators.end() || found->first != name) return std::nullopt;
  return found->second;
}

bool is_number(std::uint8_t kind) { return kind == Kinds::kInt || kind == Kinds::kBool || kind == Kinds::kDouble; }

// Returns whether a value may be the argument that a letter of tools/operator_schema.py stands for.
bool fits(char letter, std::uint8_t kind) {
  const bool optional = letter >= 'a' && letter <= 'z';
  if (optional && kind == Kinds::kNull) return true;
  switch (optional ? letter - 'a' + 'A' : letter) {
    case 'T':
    case 'W':
    case 'V':
      return kind == Kinds::kTensor;
    case 'I':
      return kind == Kinds::kInt;
    case 'B':
      return kind == Kinds::kBool;
    case 'D':
      return kind == Kinds::kDouble || kind == Kinds::kInt;
    case 'S':
      return is_number(kind);
    case 'N':
      return kind == Kinds::kString;
    case 'L':
      return kind == Kinds::kIntList;
    case 'F':
      return kind == Kinds::kDoubleList;
    case 'O':
      return kind == Kinds::kBoolList;
    case 'A':
    case 'Y':
      return kind == Kinds::kTensorList;
    case 'P':
      return kind == Kinds::kOptionalTensorList;
    case 'R':
      return kind == Kinds::kNull || kind == Kinds::kTensor || is_number(kind);
    default:
      return true;
  }
}

bool overlap(const Place& one, const Place& other) {
  return one.planned && other.planned && one.memory == other.memory && one.begin < other.end && other.begin < one.end;
}

// Calls a function with the tensor, or the tensors of the list, that an argument is.
template <typename Visit>
void for_each_tensor(const PlanValue& value, const std::vector<PlanValue>& values, Visit visit) {
  if (value.kind == Kinds::kTensor) visit(value);
  for (const std::int32_t item : value.items) {
    if (item >= 0 && values[static_cast<std::size_t>(item)].kind == Kinds::kTensor) {
      visit(values[static_cast<std::size_t>(item)]);
    }
  }
}

// Kernels compute addresses from elements that they checked before, so they must not write these elements.
void check_written(const std::string& name, std::size_t written, const std::vector<const PlanValue*>& arguments,
                   const std::vector<PlanValue>& values) {
  for_each_tensor(*arguments[written], values, [&](const PlanValue& output) {
    if (output.constant) bad_call(name, "it writes a constant");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (i == written) continue;
      for_each_tensor(*arguments[i], values, [&](const PlanValue& other) {
        if (overlap(output.place, other.place)) bad_call(name, "it writes memory of another argument");
      });
    }
  });
}

// The arguments of an operator by which its kernel divides, or over which it has loops without another limit.
struct Numbers {
  std::string_view name;
  std::vector<std::size_t> positive;  // ints, and lists of ints
  std::size_t window;                 // a list of sizes, which are at most twice those of the image; 0 for none
};

const std::array<Numbers, 4> kNumbers = {{{"aten::convolution.out", {3, 5, 8}, 0},
                                          {"aten::max_pool2d_with_indices.out", {1, 2, 4}, 1},
                                          {"aten::avg_pool2d.out", {1, 2}, 1},
                                          {"aten::avg_pool3d.out", {1, 2}, 1}}};

// Returns the ints of an argument that no instruction computes.
std::vector<std::int64_t> numbers_of(const PlanValue& value, const std::vector<PlanValue>& values) {
  std::vector<std::int64_t> found;
  const auto add = [&](const PlanValue& each) {
    if (each.kind == Kinds::kInt && !each.computed) found.push_back(each.number);
  };
  add(value);
  for (const std::int64_t each : value.ints) add(values[static_cast<std::size_t>(each)]);
  return found;
}

void check_numbers(const std::string& name, const std::vector<const PlanValue*>& arguments,
                   const std::vector<PlanValue>& values) {
  if (name == "aten::view_copy.out") {  // the size that is -1 is computed by a division
    const std::vector<std::int64_t> sizes = numbers_of(*arguments[1], values);
    const auto has = [&](std::int64_t size) { return std::find(sizes.begin(), sizes.end(), size) != sizes.end(); };
    if (has(-1) && has(0)) bad_call(name, "a size cannot be computed");
  }
  for (const Numbers& each : kNumbers) {
    if (each.name != name) continue;
    for (const std::size_t at : each.positive) {
      for (const std::int64_t number : numbers_of(*arguments[at], values)) {
        if (number < 1) bad_call(name, "argument " + std::to_string(at) + " is " + std::to_string(number));
      }
    }
    if (each.window == 0) continue;
    const std::vector<std::uint32_t>& sizes = arguments[0]->sizes;
    const std::int64_t largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    for (const std::int64_t window : numbers_of(*arguments[each.window], values)) {
      if (window > 2 * largest) bad_call(name, "a window is larger than its image");
    }
  }
}

}  // namespace

bool is_view(const std::string& name) { return name == "executorch_prim::et_view.default"; }

void check_kernel_call(const std::string& name, const std::vector<std::int32_t>& numbers,
                       const std::vector<PlanValue>& values) {
  std::vector<const PlanValue*> arguments;
  arguments.reserve(numbers.size());
  for (const std::int32_t each : numbers) {
    arguments.push_back(&values[static_cast<std::size_t>(each)]);
    for_each_tensor(*arguments.back(), values, [&](const PlanValue& tensor) {
      if (tensor.element == 0) bad_call(name, "a tensor has an unknown element type");
    });
  }
  const std::optional<std::string_view> known = signature(name);
  if (!known) {  // of a library that is not the runtime's: the last argument is the output, as it is for all operators
    if (!arguments.empty()) check_written(name, 0, {arguments.back()}, values);
    return;
  }
  if (arguments.size() != known->size()) {
    bad_call(name, std::to_string(arguments.size()) + " arguments; expected " + std::to_string(known->size()));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!fits((*known)[i], arguments[i]->kind)) bad_call(name, "argument " + std::to_string(i) + " is of another kind");
  }
  check_numbers(name, arguments, values);
  if (known->ends_with('K')) arguments.pop_back();  // the outputs again
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if ((*known)[i] == 'W' || (*known)[i] == 'Y') check_written(name, i, arguments, values);
  }
}

void check_moves(const std::vector<Step>& steps, const std::vector<PlanValue>& values) {
  if (std::none_of(values.begin(), values.end(), [](const PlanValue& each) { return each.needs_move; })) return;
  // For each instruction, the values that lack elements on some way to it; absent if no way is known.
  std::vector<std::optional<std::vector<bool>>> lacking(steps.size() + 1);
  std::vector<std::size_t> changed = {0};
  lacking[0].emplace(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) (*lacking[0])[i] = values[i].needs_move;
  while (!changed.empty()) {
    const std::size_t at = changed.back();
    changed.pop_back();
    if (at == steps.size()) continue;
    std::vector<bool> now = *lacking[at];
    for (const std::size_t each : steps[at].reads) {
      if (now[each]) throw Malformed("a tensor is read before it has elements");
    }
    for (const std::size_t each : steps[at].moves_to) now[each] = false;
    for (const std::size_t each : steps[at].next) {
      const auto before = lacking[each];
      if (!lacking[each]) lacking[each] = now;
      for (std::size_t i = 0; i < now.size(); ++i) {
        if (now[i]) (*lacking[each])[i] = true;
      }
      if (lacking[each] != before) changed.push_back(each);
    }
  }
}

}  // namespace modelbuild
