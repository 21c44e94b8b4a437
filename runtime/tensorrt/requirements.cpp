#include "requirements.hpp"

#include <algorithm>

#include "delegates/requirements.hpp"
#include "device.hpp"
#include "flavour_search.hpp"
#include "plan_header.hpp"

namespace modelbuild::tensorrt {
namespace {

std::string joined(const std::vector<std::string>& names, const char* separator) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : separator) + name;
  return text;
}

std::vector<std::string> check(std::span<const std::uint8_t> bytes, const std::optional<Target>& target) {
  try {
    const Blob blob = parse_blob(bytes);
    if (blob.declared) return unmet(blob, blob.declared->capabilities);
    return unmet(blob, target ? target->compute_capabilities : std::vector<std::string>{});
  } catch (const BadBlob& problem) {
    return {std::string("a TensorRT delegate's blob is damaged: ") + problem.what()};
  }
}

const bool provided = (provide_requirements("TensorRTBackend", check), true);

std::string gpu_problem(int device, const std::vector<std::string>& capabilities) {
  if (std::string problem = cuda::driver_problem(); !problem.empty()) return problem;
  if (std::string problem = cuda::missing_device(device); !problem.empty()) return problem;
  const std::string found = cuda::capability_of(device);
  if (capabilities.empty() || std::find(capabilities.begin(), capabilities.end(), found) != capabilities.end())
    return "";
  return "cuda:" + std::to_string(device) + " has compute capability " + found + "; the engine was built for " +
         joined(capabilities, " or ");
}

std::string version_problem(const PlanHeader& engine, const Library& found, bool exact) {
  if (exact ? found.version == engine.version : found.version >= engine.version) return "";
  return "found " + found.name + "; expected version " + text_of(engine.version) +
         (exact ? ", since the engine is not version-compatible" : " or newer");
}

std::string names_of(const std::vector<Library>& libraries) {
  std::string names;
  for (const Library& each : libraries) names += (names.empty() || each.name.empty() ? "" : ", ") + each.name;
  return names;
}

// An engine is read by a library of its own major version, or of a newer one if code is embedded in it. The
// compatibility of an engine without declared facts is unknown.
std::string library_problem(const Blob& blob) {
  const std::optional<PlanHeader> engine = read_plan_header(blob.engine);
  if (!engine) return "";
  const bool exact = blob.declared && !blob.declared->version_compatible;
  const bool newer = blob.declared && blob.declared->host_code;
  const auto fits = [&](const mb_trt_flavour& flavour) {
    if (std::string_view(flavour.product) != engine->product) return false;
    return newer ? flavour.major >= engine->version[0] : flavour.major == engine->version[0];
  };
  std::vector<std::string> names;
  const std::vector<Library> fitting = libraries(fits);
  for (const Library& each : fitting) {
    // The dispatch library reads only engines with embedded code, the lean one only compatible ones.
    const std::size_t count = exact ? 1 : newer ? each.files.size() : std::min<std::size_t>(each.files.size(), 2);
    names.insert(names.end(), each.files.begin(), each.files.begin() + static_cast<std::ptrdiff_t>(count));
    if (!each.problem.empty()) return each.problem;
    if (!each.name.empty() && (!exact || each.file == each.files.front())) return version_problem(*engine, each, exact);
  }
  const std::string needed = "the engine needs " + std::string(engine->product) + " " + text_of(engine->version);
  if (names.empty()) return needed + ", for which this runtime has no flavour";
  std::string found = names_of(fitting);
  if (found.empty()) found = names_of(libraries([&](const mb_trt_flavour& flavour) { return !fits(flavour); }));
  return needed + ": found no " + joined(names, " or ") +
         " beside the runtime, in LD_LIBRARY_PATH or in the system's folders" + (found.empty() ? "" : ", but " + found);
}

}  // namespace

std::vector<std::string> unmet(const Blob& blob, const std::vector<std::string>& capabilities) {
  std::vector<std::string> found;
  for (std::string problem : {gpu_problem(blob.device, capabilities), library_problem(blob)}) {
    if (!problem.empty()) found.push_back(std::move(problem));
  }
  return found;
}

}  // namespace modelbuild::tensorrt
