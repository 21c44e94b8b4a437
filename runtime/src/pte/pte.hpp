// Reads a .pte's methods, their inputs and outputs, delegates and sizes.
#pragma once

#include <functional>
#include <optional>

#include "api/runtime.hpp"
#include "pte/flatbuffer.hpp"

namespace modelbuild {

// A .pte's flatbuffer, and the offset of its segments. Throws flatbuffer::Malformed.
class PteFile {
 public:
  explicit PteFile(flatbuffer::Bytes file);
  flatbuffer::Table program() const { return flatbuffer::Table::root(*buffer_); }
  std::uint64_t base() const { return base_; }  // 0 if there are no segments
  std::uint64_t size() const { return size_; }

 private:
  std::optional<flatbuffer::Buffer> buffer_;
  std::uint64_t base_ = 0;
  std::uint64_t size_;
};

// Returns whether the delegate of a backend computes on a GPU, which a .pte does not state.
using OnGpu = std::function<bool(const std::string& backend)>;

// Returns the descriptions of a .pte's methods; path, data files and the signature's names are not filled in. Throws
// flatbuffer::Malformed.
Description read_pte(const PteFile& file, const OnGpu& on_gpu);

// Calls a function with the backend and the blob of each delegate. `bytes` are the file's. Throws
// flatbuffer::Malformed.
void for_each_blob(const PteFile& file, flatbuffer::Bytes bytes,
                   const std::function<void(const std::string& backend, flatbuffer::Bytes blob)>& act);

// Throws flatbuffer::Malformed for a valid flatbuffer that would make ExecuTorch read outside its bytes: missing
// fields, indices out of range, tensors outside their memory.
void check_pte(const PteFile& file);

}  // namespace modelbuild
