#include "delegates/plugins.hpp"

#include <dlfcn.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "api/fail.hpp"
#include "delegates/delegate_files.hpp"
#include "delegates/kernel_files.hpp"
#include "devices/device_services.hpp"

namespace modelbuild {
namespace {

namespace er = executorch::runtime;
namespace fs = std::filesystem;

constexpr const char* kKernels = "libexecutorch_kernels_optimized.so";
constexpr const char* kQuantizedKernels = "libexecutorch_kernels_quantized.so";

// Loads a library once and never unloads it, because its registrations cannot be undone.
void open(const fs::path& path) {
  static std::set<fs::path> opened;
  const fs::path file = fs::weakly_canonical(path);
  if (opened.count(file) != 0) return;
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    fail_program(path.string() + ": cannot be loaded: " + ::dlerror());
  }
  opened.insert(file);
}

void open_or_fail(const PluginFolders& folders, const std::string& what, const std::string& library) {
  const auto found = folders.find(library);
  if (!found) fail_program(what + " needs " + library + ", which is in none of: " + folders.text());
  open(*found);
}

bool registered(const std::string& backend) { return er::get_backend_class(backend.c_str()) != nullptr; }

// Loads the first of several libraries that exists.
void open_first(const PluginFolders& folders, const std::string& what, const std::vector<std::string>& libraries) {
  const auto there = [&](const std::string& library) { return folders.find(library).has_value(); };
  const auto found = std::find_if(libraries.begin(), libraries.end(), there);
  open_or_fail(folders, what, found == libraries.end() ? libraries.back() : *found);
}

void open_backend(const std::string& path, const std::string& backend, const DelegateFile* file,
                  const PluginFolders& folders) {
  if (registered(backend)) return;
  if (file != nullptr) open_first(folders, path + ": the backend " + backend, file->libraries);
  if (registered(backend)) return;
  std::string have;
  for (std::size_t i = 0; i < er::get_num_registered_backends(); ++i) {
    have += (have.empty() ? "" : ", ") + std::string(er::get_backend_name(i).get());
  }
  fail_program(path + ": needs the backend " + backend + ", which this runtime lacks (it has " +
               (have.empty() ? "none" : have) + ")");
}

bool has_kernel(const std::string& name) {
  const auto kernels = er::get_registered_kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&](const er::Kernel& k) { return name == k.name_; });
}

// Returns whether an operator has a kernel for all types. The kernels of kernels/faster.hpp have some types only.
bool has_general_kernel(const std::string& name) {
  const auto kernels = er::get_registered_kernels();
  const auto general = [&](const er::Kernel& k) { return name == k.name_ && k.kernel_key_.is_fallback(); };
  return std::any_of(kernels.begin(), kernels.end(), general);
}

// Loads the libraries with a program's kernels that are not yet registered.
void open_kernels(const Description& program, const std::set<std::string>& kernels, const PluginFolders& folders) {
  std::map<std::string, std::string> owners;  // of operators outside ExecuTorch, by the program's manifest
  for (const KernelLibrary& library : program.kernels) {
    for (const std::string& name : library.operators) owners[name] = library.name;
  }
  std::optional<std::vector<KernelFile>> files;
  std::string absent;
  for (const std::string& name : kernels) {
    if (has_general_kernel(name)) continue;
    if (!files) files = read_kernel_files(folders);
    const auto of = [&](const KernelFile& file) { return file.operators.count(name) != 0; };
    const auto file = std::find_if(files->begin(), files->end(), of);
    const std::string what = program.path + ": the kernel " + name;
    if (file != files->end()) {
      open_first(folders, what, file->libraries);
    } else if (const auto owner = owners.find(name); owner != owners.end()) {
      fail_program(what + " needs the kernel library " + owner->second + " (" + owner->second +
                   ".kernels.json), which is in none of: " + folders.text());
    } else {
      const bool quantized = name.rfind("quantized_decomposed::", 0) == 0;
      open_or_fail(folders, what, quantized ? kQuantizedKernels : kKernels);
    }
    if (!has_kernel(name)) absent += (absent.empty() ? "" : ", ") + name;
  }
  if (!absent.empty()) fail_program(program.path + ": this runtime has no kernel for " + absent);
}

}  // namespace

void load_plugins(const Description& program, const LoadOptions& options) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const fs::path& plugin : options.plugins) open(plugin);

  const PluginFolders folders(options.plugin_dirs);
  std::map<std::string, std::optional<DelegateFile>> backends;
  std::set<std::string> kernels;
  for (const MethodDescription& method : program.methods) {
    for (const DelegateInfo& delegate : method.delegates) {
      backends.try_emplace(delegate.backend, read_delegate_file(folders, delegate.backend));
    }
    for (const auto& [name, calls] : method.operators) kernels.insert(name);
  }
  for (const auto& [backend, file] : backends) open_backend(program.path, backend, file ? &*file : nullptr, folders);

  open_kernels(program, kernels, folders);
  if (DeviceServices* services = device_services()) services->register_allocator();
}

}  // namespace modelbuild
