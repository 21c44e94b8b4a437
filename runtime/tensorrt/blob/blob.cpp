#include "blob.hpp"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace modelbuild::tensorrt {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kHeader = 32;
constexpr std::size_t kAlignment = 16;
constexpr std::size_t kMostMetadata = 16 << 20;
constexpr std::int64_t kMostDevices = 128;  // ExecuTorch's device index is an int8

template <typename T>
T read(std::span<const std::uint8_t> data, std::size_t at) {
  T value;
  std::memcpy(&value, data.data() + at, sizeof(T));
  return value;
}

const Json& field(const Json& object, const char* name, const char* where) {
  const auto found = object.find(name);
  if (found == object.end()) throw BadBlob(std::string(where) + " lacks \"" + name + "\"");
  return *found;
}

std::string text(const Json& object, const char* name, const char* where) {
  const Json& found = field(object, name, where);
  if (!found.is_string() || found.get_ref<const std::string&>().empty()) {
    throw BadBlob(std::string(where) + ": \"" + name + "\" is not a name");
  }
  return found;
}

void check_object(const Json& value, const char* what) {
  if (!value.is_object()) throw BadBlob(std::string(what) + " is not an object");
}

// Positions of names in a list.
class Places {
 public:
  explicit Places(const std::vector<std::string>& names) {
    for (const std::string& name : names) places_.emplace(name, places_.size());
  }
  std::size_t of(const std::string& name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) throw BadBlob("an alias names '" + name + "', which is not such a binding");
    return found->second;
  }

 private:
  std::map<std::string, std::size_t> places_;
};

void read_bindings(const Json& metadata, Blob* blob) {
  const Json& bindings = field(metadata, "io_bindings", "the metadata");
  if (!bindings.is_array()) throw BadBlob("\"io_bindings\" is not a list");
  std::set<std::string> names;
  for (const Json& each : bindings) {
    check_object(each, "a binding");
    const std::string name = text(each, "name", "a binding");
    const Json& is_input = field(each, "is_input", "a binding");
    if (!is_input.is_boolean()) throw BadBlob("a binding's \"is_input\" is neither true nor false");
    if (!names.insert(name).second) throw BadBlob("two bindings are called '" + name + "'");
    (is_input.get<bool>() ? blob->inputs : blob->outputs).push_back(name);
  }
  if (blob->outputs.empty()) throw BadBlob("no binding is an output");
}

void read_aliases(const Json& metadata, Blob* blob) {
  const auto aliases = metadata.find("aliased_io");
  if (aliases == metadata.end()) return;
  if (!aliases->is_array()) throw BadBlob("\"aliased_io\" is not a list");
  const Places outputs(blob->outputs);
  const Places inputs(blob->inputs);
  std::set<std::size_t> aliased;
  for (const Json& each : *aliases) {
    check_object(each, "an alias");
    const std::size_t output = outputs.of(text(each, "output", "an alias"));
    const std::size_t input = inputs.of(text(each, "input", "an alias"));
    if (!aliased.insert(output).second) throw BadBlob("two aliases of '" + blob->outputs[output] + "'");
    blob->aliases.push_back({output, input});
  }
}

bool flag(const Json& object, const char* name, const char* where) {
  const Json& found = field(object, name, where);
  if (!found.is_boolean()) throw BadBlob(std::string(where) + ": \"" + name + "\" is neither true nor false");
  return found;
}

const Json& list(const Json& object, const char* name, const char* where) {
  const Json& found = field(object, name, where);
  if (!found.is_array()) throw BadBlob(std::string(where) + ": \"" + name + "\" is not a list");
  return found;
}

std::vector<std::int64_t> sizes(const Json& object, const char* name, const char* where) {
  std::vector<std::int64_t> found;
  for (const Json& each : list(object, name, where)) {
    if (!each.is_number_integer()) throw BadBlob(std::string(where) + ": \"" + name + "\" has no whole numbers");
    found.push_back(each.get<std::int64_t>());
  }
  return found;
}

void read_declared(const Json& metadata, Blob* blob) {
  constexpr const char* kWhere = "\"declared\"";
  const auto declared = metadata.find("declared");
  if (declared == metadata.end()) return;
  check_object(*declared, kWhere);
  Declared& found = blob->declared.emplace();
  for (const Json& each : list(*declared, "compute_capabilities", kWhere)) {
    if (!each.is_string()) throw BadBlob(std::string(kWhere) + ": a compute capability is not a text");
    found.capabilities.push_back(each);
  }
  found.version_compatible = flag(*declared, "version_compatible", kWhere);
  found.host_code = flag(*declared, "host_code", kWhere);
  for (const Json& each : list(*declared, "inputs", kWhere)) {
    check_object(each, kWhere);
    DeclaredBinding& input =
        found.inputs.emplace_back(DeclaredBinding{text(each, "name", kWhere), text(each, "dtype", kWhere), {}, {}});
    for (const Json& profile : list(each, "profiles", kWhere)) {
      check_object(profile, kWhere);
      input.profiles.push_back(
          {sizes(profile, "min", kWhere), sizes(profile, "opt", kWhere), sizes(profile, "max", kWhere)});
    }
  }
  for (const Json& each : list(*declared, "outputs", kWhere)) {
    check_object(each, kWhere);
    found.outputs.push_back(
        {text(each, "name", kWhere), text(each, "dtype", kWhere), {}, sizes(each, "shape", kWhere)});
  }
}

void read_device(const Json& metadata, Blob* blob) {
  const auto device = metadata.find("device_id");
  if (device == metadata.end()) return;
  if (!device->is_number_integer()) throw BadBlob("\"device_id\" is not an integer");
  const bool huge = device->is_number_unsigned() && device->get<std::uint64_t>() >= kMostDevices;
  if (huge || device->get<std::int64_t>() < 0)
    throw BadBlob("\"device_id\" is " + device->dump() + "; expected 0 to 127");
  blob->device = device->get<int>();
}

}  // namespace

Blob parse_blob(std::span<const std::uint8_t> data) {
  if (data.size() < kHeader) throw BadBlob("it has " + std::to_string(data.size()) + " bytes, less than a header");
  if (std::memcmp(data.data(), "TR01", 4) != 0 && std::memcmp(data.data(), "TR02", 4) != 0) {
    throw BadBlob("it does not begin with TR01 or TR02");
  }
  const std::uint64_t metadata_at = read<std::uint32_t>(data, 4);
  const std::uint64_t metadata_size = read<std::uint32_t>(data, 8);
  const std::uint64_t engine_at = read<std::uint32_t>(data, 12);
  const auto engine_size = read<std::uint64_t>(data, 16);
  if (metadata_at < kHeader) throw BadBlob("its metadata begin inside the header");
  if (metadata_size > kMostMetadata) throw BadBlob("it claims " + std::to_string(metadata_size) + " bytes of metadata");
  if (engine_at % kAlignment != 0) throw BadBlob("its engine does not begin at a multiple of 16");
  if (metadata_at + metadata_size > engine_at) throw BadBlob("its metadata reach into the engine");
  if (engine_at > data.size() || engine_size > data.size() - engine_at) {
    throw BadBlob("its engine ends after its own " + std::to_string(data.size()) + " bytes");
  }
  if (engine_size == 0) throw BadBlob("its engine is empty");

  Blob blob;
  blob.engine = data.subspan(engine_at, engine_size);
  const auto json = data.subspan(metadata_at, metadata_size);
  const Json metadata = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (metadata.is_discarded()) throw BadBlob("its metadata are not JSON");
  check_object(metadata, "the metadata");
  read_bindings(metadata, &blob);
  read_aliases(metadata, &blob);
  read_device(metadata, &blob);
  read_declared(metadata, &blob);
  return blob;
}

}  // namespace modelbuild::tensorrt
