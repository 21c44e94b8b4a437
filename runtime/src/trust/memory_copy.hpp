// A copy of a file in memory that nothing can change, for functions that take a path.
#pragma once

#include <filesystem>
#include <string>

#include "files/sha256.hpp"

namespace modelbuild {

class MemoryCopy {
 public:
  explicit MemoryCopy(const std::filesystem::path& path);  // throws Error
  ~MemoryCopy();
  MemoryCopy(MemoryCopy&& other) noexcept;
  MemoryCopy& operator=(MemoryCopy&&) = delete;
  MemoryCopy(const MemoryCopy&) = delete;
  MemoryCopy& operator=(const MemoryCopy&) = delete;

  const Sha256& digest() const { return digest_; }  // of the copy
  std::string path() const;                         // of the copy, in this process, for the life of this object

 private:
  void fill(const std::filesystem::path& path, int from);

  int file_ = -1;
  Sha256 digest_{};
};

}  // namespace modelbuild
