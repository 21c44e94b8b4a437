// The CUDA delegate: AOTInductor's libraries. The blob is "<key of the library>\n\n<key of the list of constants>",
// keys of the program's named data (constants.hpp). ExecuTorch's own CudaBackend writes other blobs, and refuses this
// one.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "delegates/requirements.hpp"
#include "part.hpp"

namespace modelbuild::aoti {
namespace {

namespace er = executorch::runtime;
using Specs = er::ArrayRef<er::CompileSpec>;

std::string spec(const Specs& specs, const char* key) {
  for (const er::CompileSpec& each : specs) {
    if (std::strcmp(each.key, key) == 0) return {static_cast<const char*>(each.value.buffer), each.value.nbytes};
  }
  return "";
}

bool read_keys(const er::FreeableBuffer& processed, Keys* keys) {
  const std::string text(static_cast<const char*>(processed.data()), processed.size());
  const std::size_t end = text.find('\n');
  if (end == std::string::npos || text.compare(end, 2, "\n\n") != 0) return false;
  *keys = {text.substr(0, end), text.substr(end + 2)};
  return !keys->library.empty() && !keys->constants.empty() && keys->constants.find('\n') == std::string::npos;
}

// Reads "cuda:1"; "" and "cuda" are the first GPU.
bool read_device(const std::string& text, int* device) {
  if (text.empty() || text == "cuda") return true;
  if (text.rfind("cuda:", 0) != 0) return false;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + 5, end, *device);
  return error == std::errc() && last == end && *device >= 0;
}

class Backend final : public er::BackendInterface {
 public:
  bool is_available() const override { return true; }

  er::Result<er::DelegateHandle*> init(er::BackendInitContext& context, er::FreeableBuffer* processed,
                                       Specs specs) const override {
    const std::string target = spec(specs, "target_device");
    Keys keys;
    int device = 0;
    if (!read_keys(*processed, &keys) || !read_device(target, &device)) {
      ET_LOG(Error, "a CUDA delegate's blob was not built by modelbuild, or is damaged (%zu bytes, for '%s')",
             processed->size(), target.c_str());
      return Error::DelegateInvalidCompatibility;
    }
    if (context.get_named_data_map() == nullptr) {
      ET_LOG(Error, "a CUDA delegate's data are not in the program");
      return Error::InvalidProgram;
    }
    const char* method = context.get_method_name();
    Owner owner;
    if (const auto program = context.get_runtime_spec<int>("modelbuild_program"); program.ok()) {
      owner = {*program, context.get_runtime_spec<int>("modelbuild_module").get()};
    }
    std::unique_ptr<Part> part;
    const Error error =
        Part::load(keys, *context.get_named_data_map(), device, method == nullptr ? "?" : method, owner, &part);
    if (error != Error::Ok) return error;
    processed->Free();
    return part.release();
  }

  Error execute(er::BackendExecutionContext& /*context*/, er::DelegateHandle* handle,
                Span<EValue*> arguments) const override {
    return static_cast<Part*>(handle)->run(arguments);
  }

  void destroy(er::DelegateHandle* handle) const override { delete static_cast<Part*>(handle); }
};

Backend backend;
const Error registered = er::register_backend({"CudaBackend", &backend});

// A blob does not state the GPU that its library runs on.
std::vector<std::string> unmet(std::span<const std::uint8_t> /*blob*/, const std::optional<Target>& target) {
  if (std::string problem = cuda::driver_problem(); !problem.empty()) return {problem};
  const std::vector<std::string> wanted = target ? target->compute_capabilities : std::vector<std::string>{};
  const auto fits = [&](int gpu) { return std::count(wanted.begin(), wanted.end(), cuda::capability_of(gpu)) != 0; };
  std::string found;
  for (int gpu = 0; gpu < cuda::device_count(); ++gpu) {
    if (wanted.empty() || fits(gpu)) return {};
    found += (found.empty() ? "" : ", ") + cuda::capability_of(gpu);
  }
  if (found.empty()) return {cuda::missing_device(0)};
  return {"no GPU here has a compute capability that the program was built for; found " + found};
}

const bool provided = (provide_requirements("CudaBackend", unmet), true);

}  // namespace
}  // namespace modelbuild::aoti
