// The command line of modelbuild-run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "modelbuild/runtime.hpp"

namespace modelbuild {

struct Options {
  std::filesystem::path program;
  LoadOptions load;
  std::vector<std::pair<std::string, std::filesystem::path>> inputs;  // name, file
  std::string method = "forward";
  std::optional<std::filesystem::path> output_dir;
  int repeat = 0;
  int warmup = 3;
  bool describe = false;
  bool json = false;
  // Inputs are put into device memory before the first run, and outputs stay there: where the program says, or all on
  // one GPU.
  bool device_io = false;
  std::optional<int> device_io_gpu;
  bool cuda_graph = false;
  LogLevel log = LogLevel::kError;
  bool help = false;
};

extern const char kUsage[];

// Throws Error of kind kInput that says what is wrong.
Options parse_options(int count, char** arguments);

}  // namespace modelbuild
