// Reads <name>.kernels.json, the file beside a library of kernels that lists its operators.
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

// Returns the descriptions in all folders, those of the first folder first. Throws Error for a damaged file.
std::vector<KernelFile> read_kernel_files(const PluginFolders& folders);

}  // namespace modelbuild
