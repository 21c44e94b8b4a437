#include "library.hpp"

#include <dlfcn.h>
#include <executorch/runtime/platform/log.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace modelbuild::aoti {
namespace {

// Shims that no CUDA graph can contain, and why. A library names the shims that it calls.
struct Unrecordable {
  std::string_view shim;
  const char* reason;
};
constexpr Unrecordable kUnrecordable[] = {
    {"aoti_torch_cuda_sort_stable", "it sorts with Thrust, which allocates memory"},
    {"aoti_torch_item_", "it reads a size that depends on values from the GPU"},
};

const char* why_unrecordable(std::string_view library) {
  for (const Unrecordable& each : kUnrecordable) {
    if (library.find(each.shim) != std::string_view::npos) return each.reason;
  }
  return nullptr;
}

bool write_all(int file, const void* bytes, std::size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(file, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// Returns a path to an open file that no library was loaded from. The loader compares names, so a reused descriptor
// number would return the library that had it before.
std::string fresh_path(int file) {
  std::string folder = "/proc/self/fd/";
  while (true) {
    const std::string path = folder + std::to_string(file);
    void* other = ::dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    if (other == nullptr) return path;
    ::dlclose(other);
    folder += "./";
  }
}

}  // namespace

Error expose_shims() {
  static const Error exposed = [] {
    if (::dlopen("libaoti_cuda_shims.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return Error::Ok;
    ET_LOG(Error, "the CUDA delegate's shims cannot be loaded: %s", ::dlerror());
    return Error::NotFound;
  }();
  return exposed;
}

Error Library::load(const void* bytes, std::size_t size, std::unique_ptr<Library>* result) {
  if (const Error error = expose_shims(); error != Error::Ok) return error;
  std::unique_ptr<Library> library(new Library());
  library->unrecordable = why_unrecordable({static_cast<const char*>(bytes), size});
  library->file_ = ::memfd_create("aoti", MFD_CLOEXEC);
  if (library->file_ < 0 || !write_all(library->file_, bytes, size)) {
    ET_LOG(Error, "the CUDA delegate: %zu bytes of library cannot be kept in memory: %s", size, std::strerror(errno));
    return Error::MemoryAllocationFailed;
  }
  // Lazy binding, because some libraries refer to functions that they never call.
  library->handle_ = ::dlopen(fresh_path(library->file_).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    ET_LOG(Error, "the CUDA delegate: a compiled library cannot be loaded: %s", ::dlerror());
    return Error::DelegateInvalidCompatibility;
  }
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(::dlsym(library->handle_, name));
    if (*function == nullptr) ET_LOG(Error, "the CUDA delegate: a compiled library has no %s", name);
    return *function != nullptr;
  };
  const bool complete = find(&library->create, "AOTInductorModelContainerCreateWithExternalConstants") &&
                        find(&library->destroy, "AOTInductorModelContainerDelete") &&
                        find(&library->input_count, "AOTInductorModelContainerGetNumInputs") &&
                        find(&library->output_count, "AOTInductorModelContainerGetNumOutputs") &&
                        find(&library->run, "AOTInductorModelContainerRunSingleThreaded");
  if (!complete) return Error::DelegateInvalidCompatibility;
  *result = std::move(library);
  return Error::Ok;
}

Library::~Library() {
  if (handle_ != nullptr) ::dlclose(handle_);
  if (file_ >= 0) ::close(file_);
}

}  // namespace modelbuild::aoti
