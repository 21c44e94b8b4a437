// The file <backend>.delegate.json that lies beside a delegate's library: what the runtime has to know of the delegate.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modelbuild {

// Where plug-ins are looked for: the given folders, then this library's own.
class PluginFolders {
 public:
  explicit PluginFolders(std::vector<std::filesystem::path> given);
  std::optional<std::filesystem::path> find(const std::string& file) const;
  std::string text() const;  // "a, b"

 private:
  std::vector<std::filesystem::path> folders_;
};

struct DelegateFile {
  std::vector<std::string> libraries;  // the first that is there registers the backend
  std::vector<std::string> first;      // loaded before any delegate, where they are there
  bool gpu = false;                    // computes on a GPU, whatever memory it is called with
};

// Return the description of a backend's delegate; none where no folder has one. Throws Error for a damaged file.
std::optional<DelegateFile> read_delegate_file(const PluginFolders& folders, std::string_view backend);

}  // namespace modelbuild
