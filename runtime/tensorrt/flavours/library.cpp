#include "library.hpp"

#include <dlfcn.h>

namespace modelbuild::tensorrt {
namespace {

std::string text(std::int32_t version, int scale) {
  const auto part = [](std::int32_t number) { return std::to_string(number); };
  return part(version / scale) + "." + part(version % scale / 100) + "." + part(version % 100);
}

}  // namespace

Library Library::load(const char* product, std::span<const char* const> names, const Versions& versions,
                      const mb_trt_log& log) {
  Library found;
  std::string missing;
  for (const char* name : names) {
    if (name == nullptr) break;
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
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

}  // namespace modelbuild::tensorrt
