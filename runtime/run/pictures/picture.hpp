// Pictures as inputs, by the rules of modelbuild_runtime/inputs.py: both give the same bytes.
#pragma once

#include "npy.hpp"

namespace modelbuild {

// Returns whether the file's extension is .png, .jpg or .jpeg, in any case.
bool is_picture(const std::filesystem::path& path);

// Returns an array with the input's type, layout and range. With `resize`, a picture whose size does not fit gets the
// input's height and width. Throws Error of kind kInput if the file is no picture, or the input takes none of its size.
Array read_picture(const Port& port, const std::filesystem::path& path, bool resize);

}  // namespace modelbuild
