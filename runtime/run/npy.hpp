// .npy files: the arrays that numpy.save writes.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

struct Array {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<char> data;  // row-major

  Tensor tensor() { return {data.data(), dtype, shape, {}}; }
};

// Looks at an array's type and shape before its elements are read, and throws where they are not wanted.
using Accept = std::function<void(DType dtype, const std::vector<std::int64_t>& shape)>;

// Throws Error of kind kInput when the file is no .npy of numbers, or has another size than it says.
Array read_npy(const std::filesystem::path& path, const Accept& accept);
void write_npy(const std::filesystem::path& path, const Array& array);

// numpy has no bfloat16: such values travel as float32, which holds each of them exactly. Rounds to nearest, ties to
// even.
Array to_bfloat16(const Array& floats);
Array from_bfloat16(const Array& array);

}  // namespace modelbuild
