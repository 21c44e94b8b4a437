// A shared library that AOTInductor compiled, loaded from bytes, with the functions it exports. No file is written.
#pragma once

#include <executorch/runtime/core/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shims.hpp"

namespace modelbuild::aoti {

using executorch::runtime::Error;

class Library {
 public:
  // Says in ExecuTorch's log why there is none.
  static Error load(const void* bytes, std::size_t size, std::unique_ptr<Library>* library);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  AotiError (*create)(Container**, std::size_t models, const char* device, const char* cubin_dir) = nullptr;
  AotiError (*destroy)(Container*) = nullptr;
  AotiError (*input_count)(Container*, std::size_t*) = nullptr;
  AotiError (*output_count)(Container*, std::size_t*) = nullptr;
  AotiError (*constant_count)(Container*, std::size_t*) = nullptr;
  AotiError (*set_constants)(Container*, const std::uint8_t* blob) = nullptr;
  // Takes the inputs over; gives outputs that are the caller's. For one call at a time, and so without the events that
  // could not be part of a CUDA graph.
  AotiError (*run)(Container*, AotiTensor** inputs, std::size_t, AotiTensor** outputs, std::size_t, void* stream,
                   void* proxy) = nullptr;

 private:
  Library() = default;
  int file_ = -1;
  void* handle_ = nullptr;
};

}  // namespace modelbuild::aoti
