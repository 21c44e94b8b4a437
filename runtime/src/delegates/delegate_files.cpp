#include "delegates/delegate_files.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/runtime.hpp"

namespace modelbuild {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kLongest = 128;

fs::path own_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&read_delegate_file), &info);
  return fs::absolute(info.dli_fname).parent_path();
}

// Returns whether a program's or a description's text is a plain file name; only then it may be part of a path.
bool is_file_name(std::string_view text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '+';
  };
  return !text.empty() && text.size() <= kLongest && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), plain);
}

constexpr const char* kDelegate = "a delegate";

}  // namespace

void fail_description(const fs::path& file, const std::string& of, const std::string& expected) {
  throw Error(Error::Kind::kProgram, file.string() + ": does not describe " + of + "; expected " + expected);
}

std::vector<std::string> described_libraries(const fs::path& file, const Json& described, const char* name,
                                             const std::string& of) {
  std::vector<std::string> found;
  const auto list = described.find(name);
  if (list == described.end()) return found;
  for (const Json& each : *list) {
    if (!list->is_array() || !each.is_string() || !is_file_name(each.get_ref<const std::string&>())) {
      fail_description(file, of, "'" + std::string(name) + "' to list names of files");
    }
    found.push_back(each.get<std::string>());
  }
  return found;
}

PluginFolders::PluginFolders(std::vector<fs::path> given) : folders_(std::move(given)) {
  folders_.push_back(own_folder());
}

std::optional<fs::path> PluginFolders::find(const std::string& file) const {
  for (const fs::path& folder : folders_) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) return folder / file;
  }
  return {};
}

std::vector<fs::path> PluginFolders::list(std::string_view suffix) const {
  std::vector<fs::path> found;
  for (const fs::path& folder : folders_) {
    const std::size_t before = found.size();
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().filename().string().ends_with(suffix)) found.push_back(entry.path());
    }
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(before), found.end());
  }
  return found;
}

std::string PluginFolders::text() const {
  std::string text;
  for (const fs::path& folder : folders_) text += (text.empty() ? "" : ", ") + folder.string();
  return text;
}

std::optional<DelegateFile> read_delegate_file(const PluginFolders& folders, std::string_view backend) {
  if (!is_file_name(backend)) return {};
  const auto file = folders.find(std::string(backend) + ".delegate.json");
  if (!file) return {};
  const Json described = Json::parse(std::ifstream(*file), nullptr, false);
  if (!described.is_object()) fail_description(*file, kDelegate, "a JSON object");
  DelegateFile found;
  found.libraries = described_libraries(*file, described, "libraries", kDelegate);
  if (found.libraries.empty()) fail_description(*file, kDelegate, "'libraries' to list names of files");
  const auto device = described.find("device");
  found.gpu = device != described.end() && *device == "cuda";
  return found;
}

}  // namespace modelbuild
