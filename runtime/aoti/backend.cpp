// The CUDA delegate: AOTInductor's libraries in the layout that executorch 1.4.1's CudaBackend writes. The blob is
// "<key of the library>\n<key of the weights>", keys of the program's named data; an empty blob means the keys
// <method>_so_blob and <method>_weights_blob. A part of a program with several methods has the blob
// "<key of the library>\n\n<key of the list of constants>" (constants.hpp), which other delegates refuse.
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

// Returns the start of executorch 1.5's layout, a magic and its version before a list of weights; "" for other layouts.
std::string newer_layout(const er::FreeableBuffer& processed) {
  constexpr std::size_t kLength = 10;  // ETCUDAFQN3
  const std::string start(static_cast<const char*>(processed.data()), std::min(processed.size(), kLength));
  return start.rfind("ETCUDAFQN", 0) == 0 ? start : "";
}

bool read_keys(const er::FreeableBuffer& processed, const std::string& method, Keys* keys) {
  if (processed.size() == 0) {
    const std::string prefix = method.empty() ? "" : method + "_";
    *keys = {prefix + "so_blob", prefix + "weights_blob", ""};
    return true;
  }
  const std::string text(static_cast<const char*>(processed.data()), processed.size());
  const std::size_t newline = text.find('\n');
  if (newline == std::string::npos || newline == 0) return false;
  const std::size_t second = text.find('\n', newline + 1);
  if (second == std::string::npos) {
    *keys = {text.substr(0, newline), text.substr(newline + 1), ""};
    return true;
  }
  *keys = {text.substr(0, newline), "", text.substr(second + 1)};
  return second == newline + 1 && !keys->constants.empty() && keys->constants.find('\n') == std::string::npos;
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
    const std::string own_method = spec(specs, "method_name");
    const std::string target = spec(specs, "target_device");
    if (const std::string layout = newer_layout(*processed); !layout.empty()) {
      ET_LOG(Error,
             "a CUDA delegate's weights are in the layout %s, which this delegate does not read; lower the program with"
             " executorch 1.4.1",
             layout.c_str());
      return Error::NotSupported;
    }
    Keys keys;
    int device = 0;
    if (!read_keys(*processed, own_method, &keys) || !read_device(target, &device)) {
      ET_LOG(Error, "a CUDA delegate's blob is damaged (%zu bytes, for '%s')", processed->size(), target.c_str());
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
