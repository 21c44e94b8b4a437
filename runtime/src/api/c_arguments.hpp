// Checks arguments of the C API before their use. All functions throw Error of kind kInput.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "api/fail.hpp"
#include "api/runtime.hpp"
#include "modelbuild/runtime.h"

namespace modelbuild::c {

// Returns the pointer's target; throws "no <name> is given" for NULL.
template <typename T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) fail_input(std::string("no ") + name + " is given");
  return *pointer;
}

// Checks the pointer and the length of an array, or of a struct's member.
void check_array(const void* array, std::size_t count, const char* name);
void check_struct_size(std::size_t size, std::size_t own, std::size_t alignment, const char* name);

// Returns a copy of a caller's options. A caller compiled against an older header passes a shorter struct, whose
// missing fields become zero. A caller compiled against a newer header passes a longer struct, whose unknown fields
// must be zero.
template <typename Options>
Options copied(const Options* from, const char* name) {
  Options options{};
  if (from == nullptr) return options;
  const std::size_t size = from->struct_size;
  check_struct_size(size, sizeof(Options), alignof(Options), name);
  std::memcpy(&options, from, std::min(size, sizeof(Options)));
  const auto* bytes = reinterpret_cast<const char*>(from);
  if (std::any_of(bytes + std::min(size, sizeof(Options)), bytes + size, [](char byte) { return byte != 0; })) {
    fail_input(std::string(name) + " has fields that this library does not support");
  }
  return options;
}

std::vector<std::filesystem::path> paths(const char* const* given, std::size_t count, const char* name);
std::vector<Tensor> tensors(const mb_tensor* given, std::size_t count, const char* name);
int device(std::int32_t number);  // of a GPU

}  // namespace modelbuild::c
