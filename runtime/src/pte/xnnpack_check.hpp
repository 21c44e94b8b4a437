// Checks a blob of XNNPACK, which ExecuTorch's delegate compiles and runs by the numbers in it.
#pragma once

#include <functional>

#include "pte/flatbuffer.hpp"

namespace modelbuild {

// A value that a partition is called with.
struct DelegateArgument {
  bool tensor = false;
  bool constant = false;
  std::uint64_t element = 0;         // bytes
  std::vector<std::uint32_t> sizes;  // in the order of memory
};

// Called with the name of data outside of the blob, and the bytes that the partition reads of them.
using NamedRead = std::function<void(const std::string& name, std::uint64_t bytes)>;

// Checks the constants, values and nodes of a blob, and the arguments of each call of the partition. Throws
// flatbuffer::Malformed. A blob without XNNPACK's header is not checked: the delegate refuses it.
void check_xnnpack(flatbuffer::Bytes blob, const std::vector<std::vector<DelegateArgument>>& calls,
                   const NamedRead& read);

}  // namespace modelbuild
