#include "delegates/requirements.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "api/fail.hpp"
#include "api/log.hpp"
#include "delegates/plugins.hpp"
#include "files/describe.hpp"
#include "files/mapped_file.hpp"
#include "pte/pte.hpp"

namespace modelbuild {
namespace {

#if defined(__aarch64__)
constexpr const char* kArch = "aarch64";
#elif defined(__x86_64__)
constexpr const char* kArch = "x86_64";
#else
#error "this architecture has no name in a device_target"
#endif

std::mutex mutex;

std::map<std::string, Requirements>& provided() {
  static std::map<std::string, Requirements> all;
  return all;
}

Requirements check_of(const std::string& backend) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = provided().find(backend);
  return found == provided().end() ? nullptr : found->second;
}

}  // namespace

void provide_requirements(const std::string& backend, Requirements check) {
  const std::lock_guard<std::mutex> lock(mutex);
  provided()[backend] = check;
}

namespace {

std::vector<std::string> unmet(const std::filesystem::path& path, const LoadOptions& options) {
  start_log();
  SignedFiles files(options.keys);
  const std::filesystem::path pte = files.program(path);
  const Description program = describe(pte, options, &files);
  if (program.device && program.device->arch != kArch) {
    return {"the program is for " + program.device->arch + "; this runtime is for " + kArch};
  }
  try {
    load_plugins(program, options);
  } catch (const Error& error) {
    return {error.what()};
  }
  std::vector<std::string> found;
  const MappedFile file(files.content(pte));
  for_each_blob(PteFile(file.bytes()), [&](const std::string& backend, flatbuffer::Bytes blob) {
    const Requirements check = check_of(backend);
    if (check == nullptr) return;
    for (std::string& line : check(blob, program.device)) {
      std::replace(line.begin(), line.end(), '\n', ' ');
      if (std::find(found.begin(), found.end(), line) == found.end()) found.push_back(std::move(line));
    }
  });
  return found;
}

}  // namespace

std::vector<std::string> unmet_requirements(const std::filesystem::path& path, const LoadOptions& options) {
  return with_errors([&] { return unmet(path, options); });
}

}  // namespace modelbuild
