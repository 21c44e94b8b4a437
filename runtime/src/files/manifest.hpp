// Checks the manifest, with a digest, at the end of a .pte or .ptd that modelbuild linked. Format: docs/runtime.md.
#pragma once

#include "pte/flatbuffer.hpp"

namespace modelbuild {

// Thrown for a file whose bytes changed after it was written.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Damaged if a file lost its manifest or, with `verify`, its digest is not the manifest's.
void check_manifest(flatbuffer::Bytes file, bool verify);

}  // namespace modelbuild
