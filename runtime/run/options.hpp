// The command line of modelbuild-run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/runtime.hpp"

namespace modelbuild {

// Files by the name of their input.
using Files = std::vector<std::pair<std::string, std::filesystem::path>>;

struct CallOptions {
  Files inputs;
  std::string method;  // empty: the only one, or forward
};

struct Options {
  std::filesystem::path program;
  LoadOptions load;
  // One after another on the same program.
  std::vector<CallOptions> calls{1};
  bool resize = false;  // pictures whose size does not fit their input
  std::optional<std::filesystem::path> output_dir;
  int repeat = 0;
  int warmup = 3;
  std::optional<std::filesystem::path> profile;
  bool describe = false;
  bool json = false;
  // Copy inputs to device memory before the first run, and keep outputs there: on the program's devices, or all on one
  // GPU.
  bool device_io = false;
  std::optional<int> device_io_gpu;
  bool cuda_graph = false;
  LogLevel log = LogLevel::kError;
  bool help = false;
};

extern const char kUsage[];

// Throws Error of kind kInput for an invalid command line.
Options parse_options(int count, char** arguments);

}  // namespace modelbuild
