// Checks the instructions of a method.
#pragma once

#include <map>

#include "pte/calls.hpp"

namespace modelbuild {

// The arguments of each call of a delegate, by its number.
using DelegateCalls = std::map<std::size_t, std::vector<std::vector<std::int32_t>>>;

// Throws flatbuffer::Malformed for an instruction that names what does not exist, reads a tensor without memory, or
// writes where it must not. Notes in the values which tensors can become constants.
DelegateCalls check_chains(const flatbuffer::Table& plan, std::vector<PlanValue>* values);

}  // namespace modelbuild
