// What runs a .pte from C++: load a program, ask what it is, run it. docs/runtime.md tells how it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace modelbuild {

// What went wrong, in one line: control characters in the message, which may be of a file, become question marks.
// `kind` tells a fault of what the caller gave from one of the program or the machine.
class Error : public std::runtime_error {
 public:
  enum class Kind { kInput, kProgram };
  Error(Kind kind, const std::string& message);
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Element types, by the numbers that a .pte has for them (executorch/schema/scalar_type.fbs).
enum class DType : std::int8_t {
  kUint8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kFloat32 = 6,
  kFloat64 = 7,
  kBool = 11,
  kBfloat16 = 15,
  kUint16 = 27,
  kUint32 = 28,
  kUint64 = 29,
};

std::string dtype_name(DType type);
std::size_t dtype_size(DType type);

struct Device {
  bool cuda = false;
  int index = 0;
  bool operator==(const Device&) const = default;
};
std::string to_string(Device device);

// A dimension: fixed where min == max. Dimensions of one name are equal; "" is tied to none.
struct Dim {
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::string name;
  bool dynamic() const { return min != max; }
};

enum class Kind { kTensor, kNone, kInt, kBool, kFloat, kString, kList };
using Constant = std::variant<std::monostate, std::int64_t, bool, double, std::string>;

// An input or output of a method, as the program and the signature.json beside it describe it.
struct Port {
  std::string name;
  Kind kind = Kind::kTensor;
  DType dtype = DType::kFloat32;
  std::vector<Dim> shape;               // from the outermost dimension as the model's author sees it
  std::vector<std::uint8_t> dim_order;  // dimensions from the outermost in memory to the innermost
  Device device;                        // where the program's own metadata says that it lies
  bool planned = false;                 // whether its memory is the program's own; if not, the caller's
  std::optional<std::pair<double, double>> range;
  Constant constant;        // of an input that is no tensor: the only value that the program takes
  std::string host_kernel;  // a kernel on the CPU that reads or writes it, "" where only delegates and copies do
};

struct DelegateInfo {
  std::string backend;
  int parts = 0;
  std::uint64_t bytes = 0;
};

// Bytes moved between host and device in one run: by delegates on their own, because what they were given lay on the
// other side (staged), and by copies that the program itself asks for (copied).
struct Transfers {
  std::uint64_t staged_in = 0;
  std::uint64_t staged_out = 0;
  std::uint64_t copied_in = 0;
  std::uint64_t copied_out = 0;
  bool operator==(const Transfers&) const = default;
};

struct MethodDescription {
  std::string name;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<DelegateInfo> delegates;
  std::map<std::string, int> operators;  // calls of each kernel outside delegates
  std::uint64_t planned_bytes = 0;       // memory for activations
  bool branches = false;                 // whether which instructions run depends on data
  Transfers most;                        // of a run on host memory, at most, going by the program's metadata
};

struct Description {
  std::string path;
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> data;  // .ptd files and their sizes
  std::vector<std::string> external;                        // tensors that lie in them
  std::vector<MethodDescription> methods;

  const MethodDescription& method(std::string_view name) const;  // throws Error
  std::string json() const;                                      // one object, as `python -m modelbuild_runtime` prints
  std::string text() const;
};

// Describe a program without loading it: no delegate, kernel or GPU is needed. Throws Error. With `verify` the SHA-256
// of files that have a manifest is checked. The files <backend>.delegate.json in `plugin_dirs` and this library's folder
// tell which delegates are on a GPU.
Description describe(const std::filesystem::path& path, std::vector<std::filesystem::path> data = {},
                     bool verify = true, std::vector<std::filesystem::path> plugin_dirs = {});

// Elements in row-major order. The memory is the caller's.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  Device device;

  std::size_t numel() const;
  std::size_t nbytes() const { return numel() * dtype_size(dtype); }
};

// An output. A tensor's memory is the program's own (or the caller's, where RunOptions gave some) and holds until the
// program runs again or is destroyed.
struct Value {
  std::string name;
  Kind kind = Kind::kTensor;
  Tensor tensor;
  Constant scalar;
};

// Runs with RunOptions::cuda_graph: how many were recorded as a graph, and how many were done by launching one.
struct GraphCounts {
  std::uint64_t recorded = 0;
  std::uint64_t replayed = 0;
};

struct LoadOptions {
  std::vector<std::filesystem::path> data;         // .ptd files; by default the one beside the program
  std::vector<std::filesystem::path> plugins;      // libraries to load besides those that the program's backends need
  std::vector<std::filesystem::path> plugin_dirs;  // where to look for those, before this library's own folder
  bool verify = true;                              // check the SHA-256 of files that have a manifest
};

struct RunOptions {
  // A cudaStream_t on which everything is enqueued. Without one each method has a stream of its own and run() returns
  // when the results are there; with one, outputs in device memory are there when the stream gets to them.
  std::optional<void*> stream;
  // Where outputs are to be written, by index; entries without data are the program's choice. Only for outputs whose
  // memory the program did not plan itself.
  std::vector<Tensor> outputs;
  // Keep the run as a CUDA graph: the second run in a row on the same addresses and shapes is recorded, further ones
  // are one launch. Outputs for which no memory is given are overwritten by each. Throws Error where the run cannot be
  // a graph: kernels on the CPU, host memory, parts on two GPUs.
  bool cuda_graph = false;
};

// A loaded program. State that it keeps between runs lives as long as this object. One run at a time: further callers
// wait.
class Program {
 public:
  static std::unique_ptr<Program> load(const std::filesystem::path& path, const LoadOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Description& describe() const;
  // Tensors in the order of the method's tensor inputs. Tensors on the host are read in place where the program's
  // layout is row-major, and a program that writes to its inputs writes there.
  std::vector<Value> run(std::string_view method, std::span<const Tensor> inputs, const RunOptions& options = {});
  Transfers transfers() const;       // of the last run
  GraphCounts graph_counts() const;  // of all runs

 private:
  struct State;
  explicit Program(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

enum class LogLevel { kDebug, kInfo, kError, kFatal, kOff };
using LogSink = std::function<void(LogLevel, std::string_view message)>;
// Where messages of ExecuTorch and the delegates go, from `least` on. By default errors go to stderr. The sink may be
// called from any thread, one call at a time; it must not throw, or call this function.
void set_log(LogLevel least, LogSink sink = {});

// Memory of a GPU, for callers that have no CUDA of their own. Throws Error when no CUDA delegate is loaded.
class DeviceBuffer {
 public:
  DeviceBuffer(int device, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  DeviceBuffer(const DeviceBuffer&) = delete;
  void* data() const { return data_; }
  void write(const void* host, std::size_t bytes);
  void read(void* host, std::size_t bytes) const;

 private:
  int device_;
  void* data_ = nullptr;
};

// Copies an output to host memory, wherever it lies.
void copy_to_host(const Tensor& tensor, void* host);

}  // namespace modelbuild
