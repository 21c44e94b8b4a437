#include "flavours.hpp"

#include <dlfcn.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <filesystem>

namespace modelbuild::tensorrt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "libmodelbuild_tensorrt_";

const mb_trt_flavour* open(const fs::path& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ET_LOG(Error, "%s", ::dlerror());
    return nullptr;
  }
  using Get = const mb_trt_flavour* (*)();
  const auto get = reinterpret_cast<Get>(::dlsym(library, "modelbuild_tensorrt_flavour"));
  const mb_trt_flavour* flavour = get == nullptr ? nullptr : get();
  if (flavour == nullptr || flavour->abi != MB_TRT_ABI || flavour->struct_size < sizeof(mb_trt_flavour)) {
    ET_LOG(Error, "%s is of another version than this delegate", path.c_str());
    return nullptr;
  }
  return flavour;
}

std::vector<const mb_trt_flavour*> find() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&flavours), &info);
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::absolute(info.dli_fname).parent_path(), error)) {
    if (entry.path().filename().string().rfind(kPrefix, 0) == 0) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<const mb_trt_flavour*> found;
  for (const fs::path& path : paths) {
    if (const mb_trt_flavour* flavour = open(path)) found.push_back(flavour);
  }
  return found;
}

}  // namespace

const std::vector<const mb_trt_flavour*>& flavours() {
  static const std::vector<const mb_trt_flavour*> found = find();
  return found;
}

}  // namespace modelbuild::tensorrt
