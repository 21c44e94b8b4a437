// Reads a .pte's methods, their inputs and outputs, delegates and sizes.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "api/runtime.hpp"
#include "pte/flatbuffer.hpp"

namespace modelbuild {

// A .pte's flatbuffer, and the offset of its segments. Throws flatbuffer::Malformed.
class PteFile {
 public:
  explicit PteFile(flatbuffer::Bytes file);
  flatbuffer::Table program() const { return flatbuffer::Table::root(*buffer_); }
  std::uint64_t base() const { return base_; }        // 0 if there are no segments
  flatbuffer::Bytes bytes() const { return bytes_; }  // of the whole file

 private:
  flatbuffer::Bytes bytes_;
  std::optional<flatbuffer::Buffer> buffer_;
  std::uint64_t base_ = 0;
};

// The blobs of a program's delegates.
class Blobs {
 public:
  explicit Blobs(const PteFile& file);
  flatbuffer::Bytes of(const flatbuffer::Table& delegate) const;

 private:
  std::vector<flatbuffer::Bytes> segments_;
  std::vector<flatbuffer::Bytes> inline_;
};

// Returns whether the delegate of a backend computes on a GPU, which a .pte does not state.
using OnGpu = std::function<bool(const std::string& backend)>;

// Returns the descriptions of a .pte's methods; path, data files and the signature's names are not filled in. Throws
// flatbuffer::Malformed.
Description read_pte(const PteFile& file, const OnGpu& on_gpu);

// Calls a function with the backend and the blob of each delegate. Throws flatbuffer::Malformed.
void for_each_blob(const PteFile& file,
                   const std::function<void(const std::string& backend, flatbuffer::Bytes blob)>& act);

// The bytes that partitions read of data outside of the program, by name.
using ExternalReads = std::map<std::string, std::uint64_t>;

// Returns the data that a .ptd must have. Throws flatbuffer::Malformed for a valid flatbuffer that would make
// ExecuTorch or a kernel access memory out of its bounds: missing fields, indices out of range, tensors outside their
// memory, arguments of another kind.
ExternalReads check_pte(const PteFile& file);

}  // namespace modelbuild
