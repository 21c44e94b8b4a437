// A shared library compiled by AOTInductor, loaded from memory without a file, and its exported functions.
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
  // Logs the reason of a failure to ExecuTorch's log.
  static Error load(const void* bytes, std::size_t size, std::unique_ptr<Library>* library);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // The container does not copy the constants.
  AotiError (*create)(Container**, std::size_t models, const char* device, const char* cubin_dir,
                      const NamedTensor* constants, std::size_t count) = nullptr;
  AotiError (*destroy)(Container*) = nullptr;
  AotiError (*input_count)(Container*, std::size_t*) = nullptr;
  AotiError (*output_count)(Container*, std::size_t*) = nullptr;
  // Takes ownership of the inputs and passes ownership of the outputs to the caller. One call at a time, so it needs no
  // events, which could not be part of a CUDA graph.
  AotiError (*run)(Container*, AotiTensor** inputs, std::size_t, AotiTensor** outputs, std::size_t, void* stream,
                   void* proxy) = nullptr;
  // Why a CUDA graph can't contain its run; null if one can.
  const char* unrecordable = nullptr;

 private:
  Library() = default;
  int file_ = -1;
  void* handle_ = nullptr;
};

}  // namespace modelbuild::aoti
