#include "plugins.hpp"

#include <dlfcn.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "device_services.hpp"

namespace modelbuild {
namespace {

namespace er = executorch::runtime;
namespace fs = std::filesystem;

struct Provider {
  std::string_view backend;
  std::array<const char*, 2> libraries;  // the first that is there
};

// ExecuTorch's own CUDA delegate comes before ours, and before anything that would register another device allocator.
constexpr std::array<Provider, 3> kBackends = {{
    {"CudaBackend", {"libexecutorch_backend_cuda.so", "libmodelbuild_aoti.so"}},
    {"TensorRTBackend", {"libmodelbuild_tensorrt.so", nullptr}},
    {"XnnpackBackend", {"libexecutorch_backend_xnnpack.so", nullptr}},
}};
constexpr const char* kKernels = "libexecutorch_kernels_optimized.so";
constexpr const char* kQuantizedKernels = "libexecutorch_kernels_quantized.so";

[[noreturn]] void fail(const std::string& message) { throw Error(Error::Kind::kProgram, message); }

fs::path own_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&load_plugins), &info);
  return fs::absolute(info.dli_fname).parent_path();
}

// Loaded once and never unloaded: what registered itself cannot be taken back.
void open(const fs::path& path) {
  static std::set<fs::path> opened;
  const fs::path file = fs::weakly_canonical(path);
  if (opened.count(file) != 0) return;
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    fail(path.string() + ": cannot be loaded: " + ::dlerror());
  }
  opened.insert(file);
}

class Folders {
 public:
  explicit Folders(const LoadOptions& options) : folders_(options.plugin_dirs) { folders_.push_back(own_folder()); }

  std::optional<fs::path> find(const char* library) const {
    for (const fs::path& folder : folders_) {
      if (fs::exists(folder / library)) return folder / library;
    }
    return {};
  }

  void open_or_fail(const std::string& what, const char* library) const {
    const auto found = find(library);
    if (!found) {
      std::string searched;
      for (const fs::path& folder : folders_) searched += (searched.empty() ? "" : ", ") + folder.string();
      fail(what + " needs " + library + ", which is in none of: " + searched);
    }
    open(*found);
  }

 private:
  std::vector<fs::path> folders_;
};

void open_backend(const std::string& path, const std::string& backend, const Folders& folders) {
  if (er::get_backend_class(backend.c_str()) != nullptr) return;
  for (const Provider& each : kBackends) {
    if (each.backend != backend) continue;
    const bool first = each.libraries[1] == nullptr || folders.find(each.libraries[0]);
    folders.open_or_fail(path + ": the backend " + backend, first ? each.libraries[0] : each.libraries[1]);
  }
  if (er::get_backend_class(backend.c_str()) != nullptr) return;
  std::string have;
  for (std::size_t i = 0; i < er::get_num_registered_backends(); ++i) {
    have += (have.empty() ? "" : ", ") + std::string(er::get_backend_name(i).get());
  }
  fail(path + ": needs the backend " + backend + ", which this runtime lacks (it has " +
       (have.empty() ? "none" : have) + ")");
}

bool has_kernel(const std::string& name) {
  const auto kernels = er::get_registered_kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&](const er::Kernel& k) { return name == k.name_; });
}

}  // namespace

void load_plugins(const Description& program, const LoadOptions& options) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const fs::path& plugin : options.plugins) open(plugin);

  const Folders folders(options);
  std::set<std::string> backends;
  std::set<std::string> kernels;
  for (const MethodDescription& method : program.methods) {
    for (const DelegateInfo& delegate : method.delegates) backends.insert(delegate.backend);
    for (const auto& [name, calls] : method.operators) kernels.insert(name);
  }
  const bool cuda = backends.count("CudaBackend") + backends.count("TensorRTBackend") != 0;
  if (const auto upstream = folders.find(kBackends[0].libraries[0]); cuda && upstream) open(*upstream);
  for (const std::string& backend : backends) open_backend(program.path, backend, folders);

  std::string absent;
  for (const std::string& name : kernels) {
    if (has_kernel(name)) continue;
    const bool quantized = name.rfind("quantized_decomposed::", 0) == 0;
    folders.open_or_fail(program.path + ": the kernel " + name, quantized ? kQuantizedKernels : kKernels);
    if (!has_kernel(name)) absent += (absent.empty() ? "" : ", ") + name;
  }
  if (!absent.empty()) fail(program.path + ": this runtime has no kernel for " + absent);
  if (DeviceServices* services = device_services()) services->register_allocator();
}

}  // namespace modelbuild
