// Reads <name>.kernels.json, the file next to a library of kernels that lists its operators.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "delegates/delegate_files.hpp"

namespace modelbuild {

struct KernelFile {
  std::string name;
  std::vector<std::string> libraries;  // the first that exists registers the kernels
  std::set<std::string> operators;     // as "torchvision::nms.out"
};

// Returns the descriptions in all folders, in the order of the folders. Throws Error for a damaged file.
std::vector<KernelFile> read_kernel_files(const PluginFolders& folders);

}  // namespace modelbuild
