#include "library.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace modelbuild::tensorrt {
namespace {

struct Parts {
  std::int32_t major, minor, patch;
};

Parts parts(std::int32_t version, int scale) { return {version / scale, version % scale / 100, version % 100}; }

std::string text(std::int32_t version, int scale) {
  const Parts all = parts(version, scale);
  return std::to_string(all.major) + "." + std::to_string(all.minor) + "." + std::to_string(all.patch);
}

// Opens a library from this flavour's folder, or else by the system's search. Returns nullptr, and dlerror's text, if
// there is none.
void* open(const char* name) {
  Dl_info info{};
  std::error_code unreadable;
  if (::dladdr(reinterpret_cast<const void*>(&text), &info) != 0) {
    const std::filesystem::path beside = std::filesystem::path(info.dli_fname).replace_filename(name);
    if (std::filesystem::exists(beside, unreadable)) return ::dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  return ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Library Library::load(const char* product, std::span<const char* const> names, const Versions& versions,
                      const mb_trt_log& log) {
  Library found;
  std::string missing;
  for (const char* name : names) {
    if (name == nullptr) break;
    void* library = open(name);
    if (library == nullptr) {
      missing += (missing.empty() ? "" : "; ") + std::string(::dlerror());
      continue;
    }
    const auto create = reinterpret_cast<Create>(::dlsym(library, "createInferRuntime_INTERNAL"));
    const auto version = reinterpret_cast<std::int32_t (*)()>(::dlsym(library, "getInferLibVersion"));
    const std::int32_t number = version == nullptr ? 0 : version();
    if (create != nullptr && number >= versions.oldest && number <= versions.newest) {
      found.create_ = create;
      found.version_ = number;
      found.scale_ = versions.scale;
      found.file_ = name;
      found.name_ = std::string(product) + " " + text(number, versions.scale) + " (" + name + ")";
      return found;
    }
    const std::string problem = std::string(name) + " is version " + text(number, versions.scale) + "; expected " +
                                text(versions.oldest, versions.scale) + " to " + text(versions.newest, versions.scale) +
                                ", or a flavour that `runtime/build.py --tensorrt` compiles with its headers";
    log.write(log.user, MB_TRT_ERROR, problem.c_str());
  }
  if (!missing.empty()) log.write(log.user, MB_TRT_INFO, missing.c_str());
  return found;
}

void Library::version(std::int32_t* three) const {
  const Parts all = parts(version_, scale_);
  three[0] = all.major;
  three[1] = all.minor;
  three[2] = all.patch;
}

}  // namespace modelbuild::tensorrt
