// Reads the manifest, with a digest, at the end of a .pte or .ptd that modelbuild linked.
// Format: docs/reference/program-files.md.
#pragma once

#include <string_view>

#include "pte/flatbuffer.hpp"

namespace modelbuild {

// Thrown for a file whose bytes changed after it was written.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the JSON of the manifest at the end of a file, in the file's memory; "" if the file has no manifest. Throws
// Damaged if the file lost its manifest or, with `verify`, its digest is not the manifest's.
std::string_view read_manifest(flatbuffer::Bytes file, bool verify);

}  // namespace modelbuild
