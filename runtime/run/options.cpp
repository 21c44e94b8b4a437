#include "options.hpp"

#include <getopt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace modelbuild {

const char kUsage[] =
    "usage: modelbuild-run PROGRAM [options]\n"
    "\n"
    "Runs a program on files. PROGRAM is a .pte, the folder of a bundle, or FOLDER/NAME if that has several.\n"
    "\n"
    "  --input NAME=FILE      a file for an input: .npy, .png, .jpg\n"
    "  --resize               give pictures of another size the height and width of their input (bilinear)\n"
    "  --next                 the following --input are of another call, which starts with the state that the calls\n"
    "                         before left; outputs go to DIR/1/, DIR/2/, ..., and --repeat measures the first call\n"
    "  --data FILE.ptd        external data; by default the .ptd beside the program\n"
    "  --method NAME          the method of this call and of those after it, and of those before it without a name;\n"
    "                         default: the only one, or forward\n"
    "  --output-dir DIR       write outputs to DIR as NAME.npy\n"
    "  --repeat N             measure N runs\n"
    "  --warmup N             runs before the measured ones (default: 3)\n"
    "  --profile FILE         write the times of all instructions in the N runs of --repeat to FILE (JSON), and\n"
    "                         measure no latency: recording takes time\n"
    "  --device-io[=GPU]      keep inputs and outputs in device memory: those that the program expects there,\n"
    "                         or all on one GPU\n"
    "  --threads N            threads that compute on the CPU (default, and 0: one per core)\n"
    "  --cuda-graph           launch repeated runs as a CUDA graph\n"
    "  --verify KEY           run only what this key signed (a public key in PEM; may be repeated): PROGRAM.sig and\n"
    "                         a .sig beside each other file\n"
    "  --no-verify            do not check the SHA-256 in files' manifests\n"
    "  --plugin FILE.so       load a delegate or kernels\n"
    "  --plugin-dir DIR       search DIR first for libraries of the program's backends\n"
    "  --describe             print the program's inputs and outputs, and what this machine lacks; run nothing\n"
    "  --json                 print one JSON object\n"
    "  --log LEVEL            debug, info, error (default), fatal, off\n";

namespace {

enum Flag : int {
  kInput = 256,
  kResize,
  kNext,
  kData,
  kMethod,
  kOutputDir,
  kRepeat,
  kWarmup,
  kProfile,
  kDeviceIo,
  kThreads,
  kCudaGraph,
  kVerify,
  kNoVerify,
  kPlugin,
  kPluginDir,
  kDescribe,
  kJson,
  kLog,
  kHelp
};

constexpr std::array<option, 21> kFlags = {{{"input", required_argument, nullptr, kInput},
                                            {"resize", no_argument, nullptr, kResize},
                                            {"next", no_argument, nullptr, kNext},
                                            {"data", required_argument, nullptr, kData},
                                            {"method", required_argument, nullptr, kMethod},
                                            {"output-dir", required_argument, nullptr, kOutputDir},
                                            {"repeat", required_argument, nullptr, kRepeat},
                                            {"warmup", required_argument, nullptr, kWarmup},
                                            {"profile", required_argument, nullptr, kProfile},
                                            {"device-io", optional_argument, nullptr, kDeviceIo},
                                            {"threads", required_argument, nullptr, kThreads},
                                            {"cuda-graph", no_argument, nullptr, kCudaGraph},
                                            {"verify", required_argument, nullptr, kVerify},
                                            {"no-verify", no_argument, nullptr, kNoVerify},
                                            {"plugin", required_argument, nullptr, kPlugin},
                                            {"plugin-dir", required_argument, nullptr, kPluginDir},
                                            {"describe", no_argument, nullptr, kDescribe},
                                            {"json", no_argument, nullptr, kJson},
                                            {"log", required_argument, nullptr, kLog},
                                            {"help", no_argument, nullptr, kHelp},
                                            {nullptr, 0, nullptr, 0}}};

constexpr std::array<std::string_view, 5> kLevels = {"debug", "info", "error", "fatal", "off"};

[[noreturn]] void fail(const std::string& message) { throw Error(Error::Kind::kInput, message); }

int number(const std::string& flag, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    fail("--" + flag + " " + std::string(text) + ": expected a number that is not negative");
  }
  return value;
}

void add_input(const std::string& item, Options* options) {
  const std::size_t equals = item.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
    fail("--input " + item + ": expected name=file");
  }
  const std::string name = item.substr(0, equals);
  Files& inputs = options->calls.back().inputs;
  for (const auto& [known, file] : inputs) {
    if (known == name) fail("--input " + item + ": '" + name + "' is given twice");
  }
  inputs.emplace_back(name, item.substr(equals + 1));
}

// Gives calls without a method that of the call before, or else the first one that is named after it.
void spread_methods(std::vector<CallOptions>* calls) {
  const auto named = [](const CallOptions& call) { return !call.method.empty(); };
  const auto first = std::find_if(calls->begin(), calls->end(), named);
  std::string method = first == calls->end() ? "" : first->method;
  for (CallOptions& call : *calls) {
    if (named(call)) method = call.method;
    call.method = method;
  }
}

LogLevel level(std::string_view text) {
  const auto found = std::find(kLevels.begin(), kLevels.end(), text);
  if (found == kLevels.end()) fail("--log " + std::string(text) + ": expected debug, info, error, fatal or off");
  return static_cast<LogLevel>(found - kLevels.begin());
}

void apply(int flag, Options* options) {
  const char* value = ::optarg;
  switch (flag) {
    case kInput:
      return add_input(value, options);
    case kResize:
      options->resize = true;
      return;
    case kNext:
      return options->calls.emplace_back(), void();
    case kData:
      return options->load.data.emplace_back(value), void();
    case kMethod:
      options->calls.back().method = value;
      return;
    case kOutputDir:
      options->output_dir = value;
      return;
    case kRepeat:
      options->repeat = number("repeat", value);
      return;
    case kWarmup:
      options->warmup = number("warmup", value);
      return;
    case kProfile:
      options->profile = value;
      options->load.profile = true;
      return;
    case kDeviceIo:
      options->device_io = true;
      if (value != nullptr) options->device_io_gpu = number("device-io", value);
      return;
    case kThreads:
      options->load.threads = number("threads", value);
      return;
    case kCudaGraph:
      options->cuda_graph = true;
      return;
    case kVerify:
      return options->load.keys.emplace_back(value), void();
    case kNoVerify:
      options->load.verify = false;
      return;
    case kPlugin:
      return options->load.plugins.emplace_back(value), void();
    case kPluginDir:
      return options->load.plugin_dirs.emplace_back(value), void();
    case kDescribe:
      options->describe = true;
      return;
    case kJson:
      options->json = true;
      return;
    case kLog:
      options->log = level(value);
      return;
    case kHelp:
      options->help = true;
      return;
    default:
      fail("unknown option or an option without its value; see modelbuild-run --help");
  }
}

}  // namespace

Options parse_options(int count, char** arguments) {
  Options options;
  ::opterr = 0;
  for (int flag = 0; (flag = ::getopt_long(count, arguments, "", kFlags.data(), nullptr)) != -1;) apply(flag, &options);
  if (options.help) return options;
  if (::optind + 1 != count) fail("expected one program; see modelbuild-run --help");
  if (options.profile && options.repeat == 0) fail("--profile: expected --repeat N, the number of runs to record");
  options.program = arguments[::optind];
  spread_methods(&options.calls);
  return options;
}

}  // namespace modelbuild
