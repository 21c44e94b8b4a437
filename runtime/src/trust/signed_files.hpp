// The files of a program, each compared with its signature before it is used.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "trust/memory_copy.hpp"
#include "trust/signed_digests.hpp"

namespace modelbuild {

// With keys, files are copied to memory once; the copies are compared with their signatures, and used from then on.
// Without keys, files are used as they are. All functions throw Error.
class SignedFiles {
 public:
  explicit SignedFiles(const std::vector<std::filesystem::path>& keys);

  // Returns the .pte at a path: the file itself, the only one in the subfolder `program` of a bundle, or that of the
  // bundle's program at FOLDER/NAME. All files of a bundle are compared with the signature beside its folder.
  std::filesystem::path program(const std::filesystem::path& path);

  // Returns the path to read a file from. It is valid as long as this object.
  std::filesystem::path content(const std::filesystem::path& path);

 private:
  SignedDigests digests(const std::filesystem::path& path) const;
  void check_folder(const std::filesystem::path& folder);

  std::vector<PublicKey> keys_;
  std::map<std::filesystem::path, MemoryCopy> copies_;  // by normal(path)
};

}  // namespace modelbuild
