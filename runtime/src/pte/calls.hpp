// Checks the calls of kernels: the arguments against the operators' schemas, and the memory that kernels write.
#pragma once

#include "pte/flatbuffer.hpp"

namespace modelbuild {

// The part of a method's memory that its plan gives a tensor.
struct Place {
  bool planned = false;
  std::uint32_t memory = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// A method's value. The members from `place` on are of a tensor.
struct PlanValue {
  std::uint8_t kind = 0;            // of schema::KernelTypes
  std::int64_t number = 0;          // of an int
  bool computed = false;            // an instruction writes the number
  std::vector<std::int64_t> ints;   // the ints of a list
  std::vector<std::int32_t> items;  // the tensors of a list; -1 is none
  Place place{};
  bool constant = false;             // it is a constant, or a move or view may make it one
  std::uint64_t element = 0;         // bytes; 0 for an element type that only delegates support
  std::vector<std::uint32_t> sizes;  // the largest, in the order of memory
  bool given = false;                // an input or output, whose memory may be the caller's
  bool needs_move = false;           // it has no memory of its own
};

// Checks the call of an operator with these values. Throws flatbuffer::Malformed.
void check_kernel_call(const std::string& name, const std::vector<std::int32_t>& arguments,
                       const std::vector<PlanValue>& values);

// Returns whether an operator gives its last argument the memory of its first one.
bool is_view(const std::string& name);

// An instruction, as far as it decides which values have elements.
struct Step {
  std::vector<std::size_t> reads;
  std::vector<std::size_t> moves_to;
  std::vector<std::size_t> next;  // instructions
};

// Throws flatbuffer::Malformed if an instruction can read a value that needs a move before the move.
void check_moves(const std::vector<Step>& steps, const std::vector<PlanValue>& values);

}  // namespace modelbuild
