#include "devices/host_buffer.hpp"

#include <unistd.h>

#include <algorithm>

#include "api/runtime.hpp"

namespace modelbuild {

void check_host_memory(std::uint64_t bytes, const std::string& what) {
  const auto has =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > has) {
    throw Error(Error::Kind::kProgram, what + " takes " + std::to_string(bytes) +
                                           " bytes of memory, and this machine has " + std::to_string(has));
  }
}

HostBuffer::HostBuffer(std::size_t bytes, const std::string& what) {
  check_host_memory(bytes, what);
  data_.reset(std::calloc(std::max<std::size_t>(bytes, 1), 1));
  if (data_ == nullptr) {
    throw Error(Error::Kind::kProgram,
                what + " takes " + std::to_string(bytes) + " bytes of memory, which there are not");
  }
}

}  // namespace modelbuild
