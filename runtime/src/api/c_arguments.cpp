#include "api/c_arguments.hpp"

#include "method/dtype.hpp"

namespace modelbuild::c {
namespace {

// Longer than any struct of the API: the caller did not set a larger size.
constexpr std::size_t kMostStruct = 1024;

constexpr std::size_t kMostItems = 1 << 16;

// ExecuTorch's limit.
constexpr std::int32_t kMostDimensions = 16;

Tensor tensor(const mb_tensor& given) {
  if (!element_size(given.dtype)) fail_input("element type " + std::to_string(given.dtype) + " is not supported");
  if (given.rank < 0 || given.rank > kMostDimensions) {
    fail_input("a tensor of rank " + std::to_string(given.rank) + "; expected 0 to " + std::to_string(kMostDimensions));
  }
  if (given.rank != 0 && given.shape == nullptr) {
    fail_input("a tensor of rank " + std::to_string(given.rank) + " without sizes");
  }
  if (given.device != MB_HOST) device(given.device);
  return {given.data,
          static_cast<DType>(given.dtype),
          {given.shape, given.shape + given.rank},
          {given.device != MB_HOST, given.device == MB_HOST ? 0 : given.device}};
}

}  // namespace

void check_array(const void* array, std::size_t count, const char* name) {
  if (count > kMostItems) fail_input(std::to_string(count) + " " + name + " are more than any program has");
  if (count != 0 && array == nullptr)
    fail_input(std::to_string(count) + " " + name + " are announced, but the array is NULL");
}

void check_struct_size(std::size_t size, std::size_t own, std::size_t alignment, const char* name) {
  if (size < sizeof(std::size_t) || size > kMostStruct || size % alignment != 0) {
    fail_input(std::string(name) + ".struct_size is " + std::to_string(size) + "; expected sizeof(" + name +
               "), which is " + std::to_string(own));
  }
}

std::vector<std::filesystem::path> paths(const char* const* given, std::size_t count, const char* name) {
  check_array(static_cast<const void*>(given), count, name);
  std::vector<std::filesystem::path> found;
  found.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i] == nullptr) fail_input(std::string(name) + "[" + std::to_string(i) + "] is NULL; expected a path");
    found.emplace_back(given[i]);
  }
  return found;
}

std::vector<Tensor> tensors(const mb_tensor* given, std::size_t count, const char* name) {
  check_array(given, count, name);
  std::vector<Tensor> found;
  found.reserve(count);
  for (std::size_t i = 0; i < count; ++i) found.push_back(tensor(given[i]));
  return found;
}

int device(std::int32_t number) {
  if (number < 0) fail_input("there is no device " + std::to_string(number));
  return number;
}

}  // namespace modelbuild::c
