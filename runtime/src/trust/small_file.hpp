// Reads a whole file of limited size.
#pragma once

#include <filesystem>
#include <string>

namespace modelbuild {

// Throws Error for a file that cannot be read, that is not a regular file, or that has more bytes than `most`.
std::string read_small_file(const std::filesystem::path& path, std::size_t most);

}  // namespace modelbuild
