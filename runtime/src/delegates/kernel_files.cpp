#include "delegates/kernel_files.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

namespace modelbuild {
namespace {

constexpr std::string_view kSuffix = ".kernels.json";

}  // namespace

std::vector<KernelFile> read_kernel_files(const PluginFolders& folders) {
  std::vector<KernelFile> found;
  for (const std::filesystem::path& file : folders.list(kSuffix)) {
    const nlohmann::json described = nlohmann::json::parse(std::ifstream(file), nullptr, false);
    const auto operators = described.find("operators");
    if (!described.is_object() || operators == described.end() || !operators->is_array()) {
      fail_description(file, "a library of kernels", "'operators' to list names");
    }
    const std::string name = file.filename().string();
    KernelFile& added = found.emplace_back();
    added.name = name.substr(0, name.size() - kSuffix.size());
    added.libraries = described_libraries(file, described, "libraries", "a library of kernels");
    if (added.libraries.empty()) {
      fail_description(file, "a library of kernels", "'libraries' to list names of files");
    }
    for (const auto& each : *operators) {
      if (!each.is_string()) fail_description(file, "a library of kernels", "'operators' to list names");
      added.operators.insert(each.get<std::string>());
    }
  }
  return found;
}

}  // namespace modelbuild
