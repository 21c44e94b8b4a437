// Host memory of a size that a file states.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace modelbuild {

class HostBuffer {
 public:
  // Zeroed; uses physical memory only where written. Throws Error, which begins with `what`, if the machine has less
  // memory.
  HostBuffer(std::size_t bytes, const std::string& what);
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_.get()); }

 private:
  struct Free {
    void operator()(void* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<void, Free> data_;
};

// Throws Error if the machine has less memory than `bytes`.
void check_host_memory(std::uint64_t bytes, const std::string& what);

}  // namespace modelbuild
