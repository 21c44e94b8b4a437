// Loads, describes and runs .pte files. The runtime's own files, modelbuild-run and the plug-ins use this header; other
// programs use the C API, or modelbuild/runtime.hpp, which is made of it.
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

// Marks classes and functions that the library exports for modelbuild-run and the plug-ins.
#define MODELBUILD_API __attribute__((visibility("default")))

namespace modelbuild {

// An error with a one-line message. Control characters in it, for example from a file, become question marks. `kind`
// distinguishes invalid arguments of the caller from failures of the program or the machine.
class MODELBUILD_API Error : public std::runtime_error {
 public:
  enum class Kind { kInput, kProgram };
  Error(Kind kind, const std::string& message);
  ~Error() override;  // the type's identity, by which handlers in other libraries know it, is only here
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Element types, by their numbers in a .pte (executorch/schema/scalar_type.fbs).
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

MODELBUILD_API std::string dtype_name(DType type);
MODELBUILD_API std::size_t dtype_size(DType type);

struct Device {
  bool cuda = false;
  int index = 0;
  bool operator==(const Device&) const = default;
};
MODELBUILD_API std::string to_string(Device device);

// A dimension, fixed if min == max. Dimensions with the same name, unless it is "", are equal.
struct Dim {
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::string name;
  bool dynamic() const { return min != max; }
};

enum class Kind { kTensor, kNone, kInt, kBool, kFloat, kString, kList };
using Constant = std::variant<std::monostate, std::int64_t, bool, double, std::string>;

// An input or output of a method, from the program and the signature.json next to it.
struct Port {
  std::string name;
  Kind kind = Kind::kTensor;
  DType dtype = DType::kFloat32;
  std::vector<Dim> shape;               // in the model's order of dimensions
  std::vector<std::uint8_t> dim_order;  // dimensions from the outermost in memory to the innermost
  Device device;                        // the device in the program's metadata
  bool planned = false;                 // true if its memory is the program's own, false if the caller's
  std::optional<std::pair<double, double>> range;
  Constant constant;        // of an input that is not a tensor: the only value that the program accepts
  std::string host_kernel;  // a CPU kernel that reads or writes it; "" if only delegates and copies do
};
MODELBUILD_API std::string to_string(const Port& port);  // `image: float32[1, 3, h=12..1024, 512] on cuda:0`
// Throws Error of kind kInput, with the expected and the given value, unless a tensor of this type and shape fits.
MODELBUILD_API void check_input(const Port& port, DType dtype, const std::vector<std::int64_t>& shape);

struct DelegateInfo {
  std::string backend;
  int parts = 0;
  std::uint64_t bytes = 0;
};

// Bytes moved between host and device in a run: by delegates whose inputs or outputs were on the other side (staged),
// and by the program's own copy instructions (copied).
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
  bool branches = false;                 // true if the executed instructions depend on data
  Transfers most;                        // upper bound for a run on host memory, from the program's metadata
};

// The device that a program was compiled for.
struct Target {
  std::string arch;
  std::string os;
  std::vector<std::string> compute_capabilities;  // of its GPU, such as "8.7"; empty without a GPU
};

// A library that a part needs and that is not part of the runtime: any one of these files.
struct NeededLibrary {
  std::string product;  // "TensorRT-RTX"
  std::string version;  // that the part was compiled with
  std::vector<std::string> files;
};

// A compiled partition, with the SHA-256 (hex) of its delegate's blob.
struct Part {
  std::string id;
  std::string backend;
  std::uint64_t bytes = 0;
  std::string sha256;
  std::optional<NeededLibrary> library;
};

// A library of kernels outside ExecuTorch's own, and the program's operators that need it.
struct KernelLibrary {
  std::string name;
  std::vector<std::string> operators;
};

struct Description {
  std::string path;
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> data;  // .ptd files and their sizes
  std::vector<std::string> external;                        // tensors in them
  std::vector<MethodDescription> methods;

  // From the program's manifest; empty without a manifest.
  std::optional<Target> device;
  std::map<std::string, std::string> versions;  // of the packages that lowered the program
  std::vector<Part> parts;
  std::vector<KernelLibrary> kernels;
  bool shared_state = false;           // its methods share one state, loaded with the first run of any of them
  std::map<std::string, int> modules;  // the module of each method whose delegates share a state with other methods

  MODELBUILD_API const MethodDescription& method(std::string_view name) const;  // "": see run(); throws Error
  MODELBUILD_API std::string json() const;  // one object, as `python -m modelbuild_runtime` prints it
  MODELBUILD_API std::string text() const;
};

// Describes a program without loading it; no delegate, kernel or GPU is needed. The path is a .pte, the folder of a
// bundle, or FOLDER/NAME for a program of a bundle with several programs. Throws Error. With `verify` the SHA-256 in
// the files' manifests is checked. The files <backend>.delegate.json in `plugin_dirs` and in this library's folder
// state which delegates are on a GPU.
MODELBUILD_API Description describe(const std::filesystem::path& path, std::vector<std::filesystem::path> data = {},
                                    bool verify = true, std::vector<std::filesystem::path> plugin_dirs = {});
// The same for files that one of these keys signed: LoadOptions::keys.
MODELBUILD_API Description describe(const std::filesystem::path& path, std::vector<std::filesystem::path> data,
                                    bool verify, std::vector<std::filesystem::path> plugin_dirs,
                                    const std::vector<std::filesystem::path>& keys);

// Elements in row-major order. The caller owns the memory.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  Device device;

  MODELBUILD_API std::size_t numel() const;
  std::size_t nbytes() const { return numel() * dtype_size(dtype); }
};

// An output. A tensor's memory is the program's own (or the caller's, from RunOptions), and is valid until the program
// runs again or is destroyed.
struct Value {
  std::string name;
  Kind kind = Kind::kTensor;
  Tensor tensor;
  Constant scalar;
};

// Number of runs with RunOptions::cuda_graph: recorded as a graph, and replayed by launching a graph.
struct GraphCounts {
  std::uint64_t recorded = 0;
  std::uint64_t replayed = 0;
};

struct LoadOptions {
  std::vector<std::filesystem::path> data;         // .ptd files; by default the file next to the program
  std::vector<std::filesystem::path> plugins;      // libraries to load, before any backend of the program
  std::vector<std::filesystem::path> plugin_dirs;  // folders to search for plug-ins, before this library's own folder
  bool verify = true;                              // check the SHA-256 in files' manifests
  bool profile = false;                            // record the time of each instruction: see Program::take_profile
  // Public keys on the curve P-256 (PEM). If there are any, the program and its data are loaded only if one of the keys
  // signed them: FILE.sig next to each file, or FOLDER.sig next to a bundle: see docs/reference/program-files.md.
  std::vector<std::filesystem::path> keys;
  // The threads of this process that compute on the CPU, which all its programs share: set by the first load. 0: as
  // they are, and at first one per core.
  int threads = 0;
};

// Returns the requirements of a program that this machine does not meet, one line each: a delegate that the runtime
// lacks, a GPU, its driver, its compute capability, TensorRT's library. Loads the libraries of the program's delegates,
// but no part of the program. Throws Error if the program cannot be described.
MODELBUILD_API std::vector<std::string> unmet_requirements(const std::filesystem::path& path,
                                                           const LoadOptions& options = {});

struct RunOptions {
  // A cudaStream_t on which all work is enqueued. Without it each method has its own stream, and run() returns when the
  // results are complete; with it, outputs in device memory are complete in the stream's order.
  std::optional<void*> stream;
  // Memory for outputs, by index; for entries without data the program chooses. Only for outputs whose memory the
  // program does not plan itself.
  std::vector<Tensor> outputs;
  // Record the run as a CUDA graph: the second consecutive run on the same addresses and shapes is recorded, each later
  // run is a single launch. Outputs without given memory are overwritten by each run. Throws Error if the run cannot be
  // a graph: with kernels on the CPU, host memory, or parts on two GPUs.
  bool cuda_graph = false;
};

// A loaded program. Its state between runs lives as long as this object. One run at a time; other callers wait.
class Program {
 public:
  MODELBUILD_API static std::unique_ptr<Program> load(const std::filesystem::path& path,
                                                      const LoadOptions& options = {});
  MODELBUILD_API ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  MODELBUILD_API const Description& describe() const;
  // The method "" is the only method, or `forward`. `inputs` are in the order of the method's tensor inputs. Host
  // tensors that the program plans no memory for are read in place if their layout is row-major; a program that writes
  // to such an input then writes to the caller's memory.
  MODELBUILD_API std::vector<Value> run(std::string_view method, std::span<const Tensor> inputs,
                                        const RunOptions& options = {});
  MODELBUILD_API Transfers transfers() const;       // of the last run
  MODELBUILD_API GraphCounts graph_counts() const;  // of all runs
  // Returns the events of the runs since the last call, and forgets them: the JSON object of mb_take_profile. Throws
  // Error without LoadOptions::profile.
  MODELBUILD_API std::string take_profile();

 private:
  struct State;
  explicit Program(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

enum class LogLevel { kDebug, kInfo, kError, kFatal, kOff };
using LogSink = std::function<void(LogLevel, std::string_view message)>;
// Sets the sink for messages of ExecuTorch and the delegates of level `least` and above. By default errors go to
// stderr. The sink may be called from any thread, one call at a time; it must not throw, or call this function.
MODELBUILD_API void set_log(LogLevel least, LogSink sink = {});

// GPU memory, for callers that do not use CUDA themselves. Throws Error if no CUDA delegate is loaded.
class DeviceBuffer {
 public:
  MODELBUILD_API DeviceBuffer(int device, std::size_t bytes);
  MODELBUILD_API ~DeviceBuffer();
  MODELBUILD_API DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  DeviceBuffer(const DeviceBuffer&) = delete;
  void* data() const { return data_; }
  MODELBUILD_API void write(const void* host, std::size_t bytes);
  MODELBUILD_API void read(void* host, std::size_t bytes) const;

 private:
  int device_;
  void* data_ = nullptr;
};

// Copies an output from any device to host memory.
MODELBUILD_API void copy_to_host(const Tensor& tensor, void* host);

}  // namespace modelbuild
