#include "trust/small_file.hpp"

#include "api/fail.hpp"
#include "files/mapped_file.hpp"

namespace modelbuild {

std::string read_small_file(const std::filesystem::path& path, std::size_t most) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > most) {
    fail_program(path.string() + ": has " + std::to_string(bytes.size()) + " bytes; expected at most " +
                 std::to_string(most));
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace modelbuild
