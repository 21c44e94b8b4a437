#include "files/contents.hpp"

#include <nlohmann/json.hpp>

#include "files/manifest.hpp"

namespace modelbuild {
namespace {

using Json = nlohmann::json;

bool has(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

Target target(const Json& declared) {
  return {declared.at("arch"), declared.at("os"), declared.at("compute_capabilities").get<std::vector<std::string>>()};
}

Part part(const Json& declared) {
  const Json& bytes = declared.at("bytes");
  if (!bytes.is_number_unsigned()) throw Damaged("its manifest cannot be read: expected a size");
  Part found{declared.at("id"), declared.at("backend"), bytes, declared.at("sha256"), {}};
  if (has(declared, "requires")) {
    const Json& needed = declared.at("requires");
    found.library = {needed.at("product"), needed.at("version"),
                     needed.at("libraries").get<std::vector<std::string>>()};
  }
  return found;
}

KernelLibrary kernel_library(const Json& declared) {
  return {declared.at("library"), declared.at("operators").get<std::vector<std::string>>()};
}

}  // namespace

std::string read_contents(std::string_view manifest, Description* description) {
  if (manifest.empty()) return "";
  try {
    const Json found = Json::parse(manifest);
    if (!found.is_object()) throw Damaged("its manifest cannot be read");
    if (has(found, "device")) description->device = target(found.at("device"));
    if (has(found, "versions")) description->versions = found.at("versions").get<std::map<std::string, std::string>>();
    if (has(found, "parts")) {
      for (const Json& each : found.at("parts")) description->parts.push_back(part(each));
    }
    if (has(found, "kernels")) {
      for (const Json& each : found.at("kernels")) description->kernels.push_back(kernel_library(each));
    }
    if (has(found, "modules")) description->modules = found.at("modules").get<std::map<std::string, int>>();
    if (has(found, "shared_state")) description->shared_state = found.at("shared_state").get<bool>();
    return has(found, "signature") ? found.at("signature").dump() : "";
  } catch (const Json::exception& error) {
    throw Damaged(std::string("its manifest cannot be read: ") + error.what());
  }
}

}  // namespace modelbuild
