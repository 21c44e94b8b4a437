// C++ API of the runtime for .pte files: the C API (runtime.h) with objects and exceptions. It is compiled with the
// program that includes it, so any compiler and C++ library will do. docs/reference/runtime.md explains its use.
#pragma once

#include <modelbuild/runtime.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

// The inner namespace tells these names from those of the library.
namespace modelbuild::inline api {

// An error with a one-line message. `kind` distinguishes invalid arguments of the caller from failures of the program
// or the machine.
class Error : public std::runtime_error {
 public:
  enum class Kind { kInput, kProgram };
  Error(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Element types, by their numbers in a .pte.
enum class DType : std::int32_t {
  kUint8 = MB_UINT8,
  kInt8 = MB_INT8,
  kInt16 = MB_INT16,
  kInt32 = MB_INT32,
  kInt64 = MB_INT64,
  kFloat16 = MB_FLOAT16,
  kFloat32 = MB_FLOAT32,
  kFloat64 = MB_FLOAT64,
  kBool = MB_BOOL,
  kBfloat16 = MB_BFLOAT16,
  kUint16 = MB_UINT16,
  kUint32 = MB_UINT32,
  kUint64 = MB_UINT64,
};

constexpr std::size_t dtype_size(DType type) {
  switch (type) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool:
      return 1;
    case DType::kInt16:
    case DType::kUint16:
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFloat32:
      return 4;
    default:
      return 8;
  }
}

struct Device {
  bool cuda = false;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// Elements in row-major order. The caller owns the memory.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  Device device;

  std::size_t numel() const {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    return count;
  }
  std::size_t nbytes() const { return numel() * dtype_size(dtype); }
};

// An output; a number is a tensor without dimensions. The memory is the program's own (or the caller's, from
// RunOptions), and is valid until the program runs again or is destroyed.
struct Value {
  std::string name;
  Tensor tensor;
};

struct LoadOptions {
  std::vector<std::filesystem::path> data;         // .ptd files; by default the one beside the program
  std::vector<std::filesystem::path> plugins;      // libraries to load in addition to those of the program's backends
  std::vector<std::filesystem::path> plugin_dirs;  // folders to search for those, before the library's own folder
  bool verify = true;                              // check the SHA-256 in files' manifests
  bool profile = false;                            // record the time of each instruction: see Program::take_profile
  // Public keys on the curve P-256 (PEM). If there are any, the program and its data are loaded only if one of these
  // signed them: FILE.sig next to each file, or FOLDER.sig next to a bundle: see docs/reference/program-files.md.
  std::vector<std::filesystem::path> keys;
  // The threads of this process that compute on the CPU, which all its programs share: set by the first load. 0: as
  // they are, and at first one per core.
  int threads = 0;
};

struct RunOptions {
  // A cudaStream_t on which all work is enqueued. Without it each method has its own stream, and run() returns when the
  // results are complete; with it, outputs in device memory are complete in the stream's order.
  std::optional<void*> stream;
  // Memory for outputs, by index; for entries without data the program chooses. Only for outputs whose memory the
  // program does not plan itself.
  std::vector<Tensor> outputs;
  // Record the run as a CUDA graph: the second consecutive run on the same addresses and shapes is recorded, later ones
  // are a single launch. Outputs without given memory are overwritten by each run. Throws Error if the run can't be a
  // graph: with kernels on the CPU, host memory, or parts on two GPUs.
  bool cuda_graph = false;
};

namespace detail {

inline void check(mb_status status) {
  if (status != MB_OK) {
    throw Error(status == MB_ERROR_INPUT ? Error::Kind::kInput : Error::Kind::kProgram, mb_last_error());
  }
}

// Returns a text that the library allocated.
inline std::string taken(char* text) {
  const std::unique_ptr<char, void (*)(void*)> owned(text, mb_free);
  return owned.get();
}

// Options of C that refer to those of C++.
class CLoadOptions {
 public:
  explicit CLoadOptions(const LoadOptions& given)
      : data_(given.data), plugins_(given.plugins), dirs_(given.plugin_dirs), keys_(given.keys) {
    options.struct_size = sizeof options;
    std::tie(options.data, options.data_count) = data_.view();
    std::tie(options.plugins, options.plugin_count) = plugins_.view();
    std::tie(options.plugin_dirs, options.plugin_dir_count) = dirs_.view();
    std::tie(options.keys, options.key_count) = keys_.view();
    options.skip_verify = given.verify ? 0 : 1;
    options.profile = given.profile ? 1 : 0;
    options.threads = given.threads;
  }

  mb_load_options options{};

 private:
  struct Paths {
    explicit Paths(const std::vector<std::filesystem::path>& paths) {
      for (const std::filesystem::path& path : paths) texts.push_back(path.c_str());
    }
    std::pair<const char* const*, std::size_t> view() const {
      return {texts.empty() ? nullptr : texts.data(), texts.size()};
    }
    std::vector<const char*> texts;
  };
  Paths data_, plugins_, dirs_, keys_;
};

inline std::vector<mb_tensor> c_tensors(std::span<const Tensor> tensors) {
  std::vector<mb_tensor> found;
  for (const Tensor& each : tensors) {
    found.push_back({each.data, each.shape.data(), static_cast<std::int32_t>(each.shape.size()),
                     static_cast<std::int32_t>(each.dtype), each.device.cuda ? each.device.index : MB_HOST});
  }
  return found;
}

}  // namespace detail

// Describes a program as one JSON object, without loading it. The path is a .pte, the folder of a bundle, or
// FOLDER/NAME for a program of a bundle with several. Throws Error.
inline std::string describe(const std::filesystem::path& path) {
  char* json = nullptr;
  detail::check(mb_describe(path.c_str(), &json));
  return detail::taken(json);
}

// Returns the requirements of a program that this machine does not meet, one on each line: a delegate that the runtime
// lacks, a GPU, its driver, its compute capability, TensorRT's library. Throws Error if the program cannot be
// described.
inline std::string unmet_requirements(const std::filesystem::path& path, const LoadOptions& options = {}) {
  const detail::CLoadOptions given(options);
  char* lines = nullptr;
  detail::check(mb_check(path.c_str(), &given.options, &lines));
  return detail::taken(lines);
}

// A loaded program. Its state between runs lives as long as this object. One run at a time; other callers wait.
class Program {
 public:
  static std::unique_ptr<Program> load(const std::filesystem::path& path, const LoadOptions& options = {}) {
    const detail::CLoadOptions given(options);
    std::unique_ptr<Program> made(new Program());
    detail::check(mb_load(path.c_str(), &given.options, &made->program_));
    return made;
  }
  ~Program() { mb_unload(program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string json() const { return mb_program_json(program_); }  // as describe() returns it

  // The method "" is the only one, or `forward`. `inputs` are in the order of the method's tensor inputs. Host tensors
  // that the program plans no memory for are read in place if its layout is row-major; a program that writes to such an
  // input then writes to the caller's memory.
  std::vector<Value> run(const std::string& method, std::span<const Tensor> inputs, const RunOptions& options = {}) {
    const std::vector<mb_tensor> given = detail::c_tensors(inputs), outputs = detail::c_tensors(options.outputs);
    const mb_run_options run{sizeof run,
                             options.stream ? 1 : 0,
                             options.stream.value_or(nullptr),
                             outputs.empty() ? nullptr : outputs.data(),
                             outputs.size(),
                             options.cuda_graph ? 1 : 0};
    detail::check(mb_run(program_, method.c_str(), given.empty() ? nullptr : given.data(), given.size(), &run));
    std::vector<Value> values;
    for (std::size_t i = 0; i < mb_output_count(program_); ++i) {
      mb_tensor made{};
      detail::check(mb_output(program_, i, &made));
      Device device;
      if (made.device != MB_HOST) device = {true, made.device};
      const std::vector<std::int64_t> shape(made.shape, made.shape + made.rank);
      values.push_back({mb_output_name(program_, i), {made.data, static_cast<DType>(made.dtype), shape, device}});
    }
    return values;
  }

  // Of the last run.
  mb_transfers transfers() const {
    mb_transfers found{};
    detail::check(mb_last_transfers(program_, &found));
    return found;
  }
  // Of all runs.
  mb_graph_counts graph_counts() const {
    mb_graph_counts found{};
    detail::check(mb_count_graphs(program_, &found));
    return found;
  }
  // Returns the events of the runs since the last call, and forgets them: the JSON object of mb_take_profile. Throws
  // Error without LoadOptions::profile.
  std::string take_profile() {
    char* json = nullptr;
    detail::check(mb_take_profile(program_, &json));
    return detail::taken(json);
  }

 private:
  Program() = default;
  mb_program* program_ = nullptr;
};

enum class LogLevel { kDebug, kInfo, kError, kFatal, kOff };
using LogSink = std::function<void(LogLevel, std::string_view message)>;
// Sets the sink for messages of ExecuTorch and the delegates of level `least` and above. By default errors go to
// stderr. The sink may be called from any thread, one call at a time; it must not throw, or call this function.
inline void set_log(LogLevel least, LogSink sink = {}) {
  static std::vector<std::unique_ptr<LogSink>> sinks;  // kept, since a call of the last one may not have returned
  LogSink* kept = nullptr;
  if (sink) kept = sinks.emplace_back(std::make_unique<LogSink>(std::move(sink))).get();
  const auto forward = [](mb_log_level level, const char* message, std::size_t length, void* user) {
    (*static_cast<LogSink*>(user))(static_cast<LogLevel>(level), {message, length});
  };
  detail::check(mb_set_log(static_cast<std::int32_t>(least), kept == nullptr ? nullptr : +forward, kept));
}

// GPU memory, for callers that do not use CUDA themselves. Throws Error if no CUDA delegate is loaded.
class DeviceBuffer {
 public:
  DeviceBuffer(int device, std::size_t bytes) : device_(device) {
    detail::check(mb_device_allocate(device, bytes, &data_));
  }
  ~DeviceBuffer() { mb_device_free(device_, data_); }
  DeviceBuffer(DeviceBuffer&& other) noexcept : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  DeviceBuffer(const DeviceBuffer&) = delete;
  void* data() const { return data_; }
  void write(const void* host, std::size_t bytes) { detail::check(mb_copy(data_, host, bytes, device_)); }
  void read(void* host, std::size_t bytes) const { detail::check(mb_copy(host, data_, bytes, device_)); }

 private:
  int device_;
  void* data_ = nullptr;
};

}  // namespace modelbuild::inline api
