// Reads <backend>.delegate.json, the file next to a delegate's library that describes the delegate to the runtime.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modelbuild {

// The folders to search for plug-ins: the given folders, then this library's own folder.
class PluginFolders {
 public:
  explicit PluginFolders(std::vector<std::filesystem::path> given);
  std::optional<std::filesystem::path> find(const std::string& file) const;
  std::vector<std::filesystem::path> list(std::string_view suffix) const;  // all files whose names end with it
  std::string text() const;                                                // "a, b"

 private:
  std::vector<std::filesystem::path> folders_;
};

struct DelegateFile {
  std::vector<std::string> libraries;  // the first that exists registers the backend
  bool gpu = false;                    // true if it computes on a GPU, for host memory too
};

// Returns the description of a backend's delegate; none if no folder has a description. Throws Error for a damaged
// file.
std::optional<DelegateFile> read_delegate_file(const PluginFolders& folders, std::string_view backend);

// Returns the file names that a member of a description lists; none without the member. Throws Error for other values.
std::vector<std::string> described_libraries(const std::filesystem::path& file, const nlohmann::json& described,
                                             const char* name, const std::string& of);

// Throws Error about a description "of" a plug-in.
[[noreturn]] void fail_description(const std::filesystem::path& file, const std::string& of,
                                   const std::string& expected);

}  // namespace modelbuild
