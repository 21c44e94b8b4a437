#include "trust/signed_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "api/fail.hpp"
#include "files/mapped_file.hpp"
#include "trust/small_file.hpp"

namespace modelbuild {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSignature = 8 << 20;
constexpr const char* kProgram = "program";  // the subfolder of a bundle

// Returns a path with one spelling, without a separator at its end.
fs::path normal(const fs::path& path) {
  const fs::path found = fs::absolute(path).lexically_normal();
  return found.has_filename() ? found : found.parent_path();
}

[[noreturn]] void fail_changed(const fs::path& path, const std::string& detail = "") {
  fail_program(path.string() + ": was changed after it was signed" + (detail.empty() ? "" : ": " + detail));
}

// Returns the .pte of a bundle with one program.
fs::path only_program(const fs::path& bundle) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(bundle / kProgram)) {
    if (entry.path().extension() == ".pte") found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  std::sort(found.begin(), found.end());
  std::string expected = found.empty() ? "one .pte" : "one of: ";
  for (const fs::path& each : found) {
    expected += (&each == &found.front() ? "" : ", ") + (bundle / each.stem()).string();
  }
  fail_program((bundle / kProgram).string() + ": has " + std::to_string(found.size()) + " programs; expected " +
               expected);
}

}  // namespace

SignedFiles::SignedFiles(const std::vector<fs::path>& keys) : keys_(keys.begin(), keys.end()) {}

fs::path SignedFiles::program(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path / kProgram, error)) {
    if (!keys_.empty()) check_folder(normal(path));
    return only_program(path);
  }
  const fs::path place = normal(path);
  fs::path named = path.parent_path() / kProgram / (place.filename().string() + ".pte");
  if (fs::exists(path, error) || !fs::is_regular_file(named, error)) return path;
  if (!keys_.empty()) check_folder(place.parent_path());
  return named;
}

fs::path SignedFiles::content(const fs::path& path) {
  if (keys_.empty()) return path;
  const fs::path place = normal(path);
  auto found = copies_.find(place);
  if (found == copies_.end()) {
    const SignedDigests expected = digests(path);
    const auto own = expected.find(".");
    if (own == expected.end())
      fail_program(path.string() + ".sig: is the signature of a folder; expected that of a file");
    MemoryCopy copy(path);
    if (own->second != copy.digest()) fail_changed(path);
    found = copies_.emplace(place, std::move(copy)).first;
  }
  return found->second.path();
}

// Returns the digests in the signature next to a file or folder.
SignedDigests SignedFiles::digests(const fs::path& path) const {
  const fs::path signature = path.string() + ".sig";
  std::error_code error;
  if (!fs::exists(signature, error)) {
    if (!fs::exists(path, error)) fail_program(path.string() + ": " + std::strerror(ENOENT));
    fail_program(path.string() + ": is not signed; expected " + signature.string());
  }
  return read_signed_digests(read_small_file(signature, kMostSignature), signature.string(), keys_);
}

void SignedFiles::check_folder(const fs::path& folder) {
  SignedDigests missing = digests(folder);
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      const fs::file_status status = entry.symlink_status();
      if (fs::is_directory(status)) continue;
      const std::string name = entry.path().lexically_relative(folder).generic_string();
      if (!fs::is_regular_file(status)) fail_changed(folder, name + " is not a regular file");
      const auto expected = missing.find(name);
      if (expected == missing.end()) fail_changed(folder, name + " was added");
      Sha256 found{};
      if (entry.path().parent_path() == folder / kProgram) {
        found = copies_.emplace(entry.path(), MemoryCopy(entry.path())).first->second.digest();
      } else {
        found = sha256(MappedFile(entry.path()).bytes());
      }
      if (found != expected->second) fail_changed(folder, name + " differs");
      missing.erase(expected);
    }
  } catch (const fs::filesystem_error& error) {
    fail_program(error.path1().string() + ": " + error.code().message());
  }
  if (!missing.empty()) fail_changed(folder, missing.begin()->first + " is missing");
}

}  // namespace modelbuild
