// The manifest at the end of a .pte or .ptd that modelbuild linked, and the digest in it: docs/runtime.md has the
// format.
#pragma once

#include "flatbuffer.hpp"

namespace modelbuild {

// A file has other bytes than it was written with.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns whether a file ends with a manifest. Throws Damaged where its digest is not the file's.
bool check_manifest(flatbuffer::Bytes file);

// Returns whether a list of named data, tables whose first field is their key, has the entry of a manifest.
bool names_manifest(const std::vector<flatbuffer::Table>& named_data);

}  // namespace modelbuild
