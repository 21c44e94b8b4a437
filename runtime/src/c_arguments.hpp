// What callers of the C API give, looked at before it is used. Everything here throws Error of kind kInput.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "modelbuild/runtime.h"
#include "modelbuild/runtime.hpp"

namespace modelbuild::c {

[[noreturn]] void refuse(const std::string& message);

// What a pointer points to; "no <name> is given" for NULL.
template <typename T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) refuse(std::string("no ") + name + " is given");
  return *pointer;
}

// Of what a struct, or an array, claims to have.
void check_array(const void* array, std::size_t count, const char* name);
void check_struct_size(std::size_t size, std::size_t own, std::size_t alignment, const char* name);

// A copy of a caller's options. A caller compiled against an older header passes a shorter struct: what it lacks is
// zero. One compiled against a newer header passes a longer one, in which what this library does not know has to be
// zero.
template <typename Options>
Options copied(const Options* from, const char* name) {
  Options options{};
  if (from == nullptr) return options;
  const std::size_t size = from->struct_size;
  check_struct_size(size, sizeof(Options), alignof(Options), name);
  std::memcpy(&options, from, std::min(size, sizeof(Options)));
  const auto* bytes = reinterpret_cast<const char*>(from);
  if (std::any_of(bytes + std::min(size, sizeof(Options)), bytes + size, [](char byte) { return byte != 0; })) {
    refuse(std::string(name) + " has fields that this library does not know");
  }
  return options;
}

std::vector<std::filesystem::path> paths(const char* const* given, std::size_t count, const char* name);
std::vector<Tensor> tensors(const mb_tensor* given, std::size_t count, const char* name);
int device(std::int32_t number);  // of a GPU

}  // namespace modelbuild::c
