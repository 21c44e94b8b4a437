// The files of a program, each compared with its signature before it is used.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "trust/memory_copy.hpp"
#include "trust/signed_digests.hpp"

namespace modelbuild {

// With keys, files are copied to memory once; the copies are compared with their signatures, and then used. Without
// keys, files are used directly. All functions throw Error.
class SignedFiles {
 public:
  explicit SignedFiles(const std::vector<std::filesystem::path>& keys);

  // Returns the .pte at a path: the file itself, the only .pte in the subfolder `program` of a bundle, or the .pte of
  // the bundle's program at FOLDER/NAME. All files of a bundle are compared with the signature next to its folder.
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
