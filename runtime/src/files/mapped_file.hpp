// A file mapped read-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace modelbuild {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);  // throws Error
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::uint8_t> bytes() const { return {static_cast<const std::uint8_t*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace modelbuild
