#include "flavour_search.hpp"

#include <dlfcn.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "plan_header.hpp"

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

// Returns the flavours sorted by file name.
std::vector<const mb_trt_flavour*> find() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&open_engine), &info);
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

std::mutex mutex;  // a flavour's `load` is not thread-safe

// Call with the mutex held.
std::vector<const mb_trt_flavour*>& all_flavours() {
  static std::vector<const mb_trt_flavour*> flavours = find();
  return flavours;
}

}  // namespace

std::vector<Library> libraries(const std::function<bool(const mb_trt_flavour&)>& wanted) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<const mb_trt_flavour*> flavours;
  for (const mb_trt_flavour* each : all_flavours()) {
    if (wanted(*each)) flavours.push_back(each);
  }
  std::sort(flavours.begin(), flavours.end(),
            [](const auto* one, const auto* other) { return one->major < other->major; });
  std::vector<Library> found;
  for (const mb_trt_flavour* each : flavours) {
    Messages messages;
    const mb_trt_log log = messages.log();
    Library& library = found.emplace_back();
    for (const char* const* file = each->libraries; *file != nullptr; ++file) library.files.emplace_back(*file);
    if (const char* name = each->load(&log)) {
      library.name = name;
      library.file = each->file();
      each->version(library.version.data());
    }
    library.problem = messages.take_error();
  }
  return found;
}

Opened open_engine(std::span<const std::uint8_t> plan, bool host_code) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<const mb_trt_flavour*>& flavours = all_flavours();
  Opened opened;
  if (flavours.empty()) {
    opened.problem = "there is no flavour of TensorRT beside the delegate (libmodelbuild_tensorrt_*.so)";
    return opened;
  }
  const std::optional<PlanHeader> engine = read_plan_header(plan);
  const auto may_read = [&](const mb_trt_flavour& flavour) {
    if (!engine) return true;
    // Newer versions read an engine by the code that is embedded in it.
    const bool fits = host_code ? flavour.major >= engine->version[0] : flavour.major == engine->version[0];
    return fits && std::string_view(flavour.product) == engine->product;
  };
  std::string refusing;
  for (auto each = flavours.begin(); each != flavours.end(); ++each) {
    if (!may_read(**each)) continue;
    opened.messages = std::make_unique<Messages>();
    const mb_trt_log log = opened.messages->log();
    const char* library = (*each)->load(&log);
    if (library != nullptr) opened.engine = (*each)->deserialize(plan.data(), plan.size(), host_code ? 1 : 0, &log);
    if (opened.engine != nullptr) {
      opened.flavour = *each;
      opened.reasons.clear();
      std::rotate(flavours.begin(), each, each + 1);
      return opened;
    }
    const std::string error = opened.messages->take_error();
    if (library != nullptr) {
      refusing += (refusing.empty() ? "" : ", ") + std::string(library);
      opened.reasons.push_back(std::string(library) + " can't read it" + (error.empty() ? "" : ": " + error));
    } else if (!error.empty()) {
      opened.reasons.push_back(error);
    }
  }
  if (opened.reasons.empty()) {
    opened.problem =
        "TensorRT's library was not found; put libnvinfer, libnvinfer_lean or libtensorrt_rtx beside the"
        " runtime, or its folder into LD_LIBRARY_PATH";
  } else if (opened.reasons.size() == 1) {
    opened.problem = opened.reasons.front();
    opened.reasons.clear();
  } else {
    opened.problem = refusing.empty() ? opened.reasons.front() : "none can read it of " + refusing;
  }
  return opened;
}

}  // namespace modelbuild::tensorrt
