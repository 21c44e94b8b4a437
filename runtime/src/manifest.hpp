// The manifest at the end of a .pte or .ptd that modelbuild linked, and the digest in it: docs/runtime.md has the
// format.
#pragma once

#include "flatbuffer.hpp"

namespace modelbuild {

// A file has other bytes than it was written with.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Damaged where a file has lost its manifest or, with `verify`, is not the one that the manifest's digest is of.
void check_manifest(flatbuffer::Bytes file, bool verify);

}  // namespace modelbuild
