#include "files/signature.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "api/fail.hpp"

namespace modelbuild {
namespace {

using Json = nlohmann::json;
using Bounds = std::map<std::string, Dim>;

constexpr int kVersion = 2;

struct Named {
  std::string name;
  std::string dtype;
  std::vector<std::variant<std::int64_t, std::string>> shape;
  std::optional<std::pair<double, double>> range;
};

struct Signature {
  std::vector<Named> inputs;
  std::vector<Named> outputs;
  Bounds dynamic;
};

// The signatures of methods by name; the name is empty for the method `forward`, or for the only method.
using Signatures = std::map<std::string, Signature, std::less<>>;

Named named(const Json& declared, Bounds* dynamic) {
  Named found{declared.at("name"), declared.at("dtype"), {}, {}};
  for (const Json& size : declared.at("shape")) {
    if (size.is_string()) {
      found.shape.emplace_back(size.get<std::string>());
    } else {
      found.shape.emplace_back(size.get<std::int64_t>());
    }
  }
  if (const auto range = declared.find("range"); range != declared.end() && !range->is_null()) {
    found.range = {range->at(0).get<double>(), range->at(1).get<double>()};
  }
  if (const auto bounds = declared.find("dynamic"); bounds != declared.end() && !bounds->is_null()) {
    for (const auto& [name, bound] : bounds->items()) (*dynamic)[name] = {bound.at("min"), bound.at("max"), name};
  }
  return found;
}

Signature ports(const Json& declared) {
  Signature signature;
  for (const Json& input : declared.at("inputs")) signature.inputs.push_back(named(input, &signature.dynamic));
  for (const Json& output : declared.at("outputs")) signature.outputs.push_back(named(output, &signature.dynamic));
  return signature;
}

// Reads JSON: a text, or the contents of a file. `place` is for errors.
template <typename Text>
Signatures read(Text&& text, const std::string& place) {
  try {
    const Json found = Json::parse(text);
    Signatures signatures;
    if (found.at("version") != kVersion) {
      fail_program(place + ": signature of version " + found.at("version").dump() + "; this runtime supports " +
                   std::to_string(kVersion));
    }
    for (const auto& [name, declared] : found.at("methods").items()) signatures[name] = ports(declared);
    return signatures;
  } catch (const Json::exception& error) {
    fail_program(place + ": not a signature: " + error.what());
  }
}

// Returns the signatures in a manifest, or else in a file next to the program.
Signatures find_signatures(const std::filesystem::path& program, const std::string& in_manifest, SignedFiles* files) {
  if (!in_manifest.empty()) return read(in_manifest, program.string() + ": manifest");
  const auto own = program.parent_path() / (program.stem().string() + ".signature.json");
  for (const auto& candidate : {own, program.parent_path() / "signature.json"}) {
    if (!std::filesystem::is_regular_file(candidate)) continue;
    return read(std::ifstream(files->content(candidate), std::ios::binary), candidate.string());
  }
  return {};
}

std::string count(std::size_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// Returns a dimension from the program, which has upper bounds only, and from the signature.
Dim narrowed(const Dim& dim, const std::variant<std::int64_t, std::string>& said, const std::string& port,
             const Bounds& dynamic) {
  if (const auto* size = std::get_if<std::int64_t>(&said)) {
    if (*size < dim.min || *size > dim.max) {
      const std::string range = std::to_string(dim.min) + ".." + std::to_string(dim.max);
      throw std::invalid_argument("a dimension of '" + port + "' is " + std::to_string(*size) + " there and " +
                                  (dim.dynamic() ? range : std::to_string(dim.max)) + " in the program");
    }
    return {*size, *size, ""};
  }
  const std::string& name = std::get<std::string>(said);
  const auto bound = dynamic.find(name);
  if (bound == dynamic.end()) return {dim.min, dim.max, name};  // an expression, or a size that depends on data
  return {std::max(dim.min, bound->second.min), std::min(dim.max, bound->second.max), name};
}

void narrow(Port* port, const Named& declared, const Bounds& dynamic) {
  port->name = declared.name;
  if (port->kind != Kind::kTensor) return;
  if (declared.dtype != dtype_name(port->dtype) || declared.shape.size() != port->shape.size()) {
    throw std::invalid_argument("'" + port->name + "' is " + declared.dtype + " of rank " +
                                std::to_string(declared.shape.size()) + " there and " + dtype_name(port->dtype) +
                                " of rank " + std::to_string(port->shape.size()) + " in the program");
  }
  port->range = declared.range;
  for (std::size_t i = 0; i < port->shape.size(); ++i) {
    port->shape[i] = narrowed(port->shape[i], declared.shape[i], port->name, dynamic);
  }
}

void name_ports(const std::string& what, std::vector<Port>* ports, const std::vector<Named>* names,
                const Bounds& dynamic) {
  for (std::size_t i = 0; i < ports->size(); ++i) (*ports)[i].name = what + std::to_string(i);
  if (names == nullptr) return;
  const auto is_tensor = [](const Port& port) { return port.kind == Kind::kTensor; };
  const bool all = names->size() == ports->size();
  if (!all && static_cast<std::ptrdiff_t>(names->size()) != std::count_if(ports->begin(), ports->end(), is_tensor)) {
    throw std::invalid_argument("it names " + count(names->size(), what) + ", the program has " +
                                std::to_string(ports->size()));
  }
  auto name = names->begin();
  for (Port& port : *ports) {
    if (all || is_tensor(port)) narrow(&port, *name++, dynamic);
  }
  std::set<std::string_view> known;
  for (const Port& port : *ports) {
    if (port.name.empty()) throw std::invalid_argument("an " + what + " has no name");
    if (!known.insert(port.name).second)
      throw std::invalid_argument("two " + what + "s have the name '" + port.name + "'");
  }
}

}  // namespace

void apply_signature(const std::filesystem::path& program, const std::string& in_manifest, SignedFiles* files,
                     Description* description) {
  const Signatures signatures = find_signatures(program, in_manifest, files);
  for (MethodDescription& method : description->methods) {
    const auto found = signatures.find(method.name);
    const Signature* signature = found == signatures.end() ? nullptr : &found->second;
    const Bounds& dynamic = signature == nullptr ? Bounds{} : signature->dynamic;
    try {
      name_ports("input", &method.inputs, signature == nullptr ? nullptr : &signature->inputs, dynamic);
      name_ports("output", &method.outputs, signature == nullptr ? nullptr : &signature->outputs, dynamic);
    } catch (const std::invalid_argument& problem) {
      fail_program(program.string() + ": its signature belongs to another program: " + problem.what());
    }
  }
}

}  // namespace modelbuild
