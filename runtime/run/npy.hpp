// .npy files: the arrays that numpy.save writes.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "api/runtime.hpp"

namespace modelbuild {

struct Array {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<char> data;  // row-major

  Tensor tensor() { return {data.data(), dtype, shape, {}}; }
};

// Checks an array's type and shape before its elements are read. Throws to reject them.
using Accept = std::function<void(DType dtype, const std::vector<std::int64_t>& shape)>;

// Throws Error of kind kInput if the file is not a .npy of numbers, or its size does not match its header.
Array read_npy(const std::filesystem::path& path, const Accept& accept);
std::string npy(const Array& array);  // the content of a file

// numpy has no bfloat16: arrays of it are float32, which represents each value exactly. Rounds to nearest, ties to
// even.
Array to_bfloat16(const Array& floats);
Array from_bfloat16(const Array& array);

}  // namespace modelbuild
