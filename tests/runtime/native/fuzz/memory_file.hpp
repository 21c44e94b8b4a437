// A file in memory, for functions that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

class MemoryFile {
 public:
  // Returns its path.
  const std::string& write(const std::uint8_t* data, std::size_t size) {
    if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, data, size, 0) != static_cast<ssize_t>(size)) ::abort();
    return path_;
  }

 private:
  int file_ = ::memfd_create("fuzz", 0);
  std::string path_ = "/proc/self/fd/" + std::to_string(file_);
};
