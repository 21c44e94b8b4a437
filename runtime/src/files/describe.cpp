// Makes descriptions from a program's files, and converts them to text and JSON.
#include "files/describe.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/fail.hpp"
#include "api/one_line.hpp"
#include "delegates/delegate_files.hpp"
#include "files/contents.hpp"
#include "files/manifest.hpp"
#include "files/mapped_file.hpp"
#include "files/signature.hpp"
#include "pte/ptd.hpp"
#include "pte/pte.hpp"

namespace modelbuild {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// Returns a program's .ptd: the .ptd of its name, or the only .ptd if the program may need one. Any delegate may need a
// .ptd, because only the delegate knows its data.
std::vector<fs::path> beside(const fs::path& pte, const Description& program) {
  if (const fs::path own = fs::path(pte).replace_extension(".ptd"); fs::is_regular_file(own)) return {own};
  const auto delegates = [](const MethodDescription& method) { return !method.delegates.empty(); };
  if (program.external.empty() && std::none_of(program.methods.begin(), program.methods.end(), delegates)) return {};
  std::vector<fs::path> found;
  const fs::path folder = pte.has_parent_path() ? pte.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".ptd") found.push_back(pte.parent_path() / entry.path().filename());
  }
  return found.size() == 1 ? found : std::vector<fs::path>{};
}

std::string kind_name(Kind kind) {
  static constexpr const char* kNames[] = {"tensor", "none", "int", "bool", "float", "string", "list"};
  return kNames[static_cast<int>(kind)];
}

// Serializes JSON whose texts come from a file and may be any bytes.
std::string dumped(const OrderedJson& json) { return json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace); }

OrderedJson json(const Constant& constant) {
  return std::visit(
      [](const auto& value) -> OrderedJson {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return nullptr;
        } else {
          return value;
        }
      },
      constant);
}

OrderedJson json(const Port& port) {
  if (port.kind != Kind::kTensor) {
    return {{"name", port.name}, {"kind", kind_name(port.kind)}, {"constant", json(port.constant)}};
  }
  OrderedJson shape = OrderedJson::array();
  for (const Dim& dim : port.shape) {
    shape.push_back(dim.dynamic() ? OrderedJson{{"name", dim.name}, {"min", dim.min}, {"max", dim.max}}
                                  : OrderedJson(dim.max));
  }
  OrderedJson found = {{"name", port.name},
                       {"kind", "tensor"},
                       {"dtype", dtype_name(port.dtype)},
                       {"shape", shape},
                       {"device", to_string(port.device)},
                       {"planned", port.planned}};
  if (port.range) found["range"] = {port.range->first, port.range->second};
  return found;
}

OrderedJson json(const Transfers& moved) {
  return {{"staged_in", moved.staged_in},
          {"staged_out", moved.staged_out},
          {"copied_in", moved.copied_in},
          {"copied_out", moved.copied_out}};
}

OrderedJson json(const std::vector<Port>& ports) {
  OrderedJson found = OrderedJson::array();
  for (const Port& port : ports) found.push_back(json(port));
  return found;
}

OrderedJson json(const MethodDescription& method) {
  OrderedJson delegates = OrderedJson::array();
  for (const DelegateInfo& each : method.delegates) {
    delegates.push_back({{"backend", each.backend}, {"parts", each.parts}, {"bytes", each.bytes}});
  }
  OrderedJson operators = OrderedJson::object();
  for (const auto& [name, calls] : method.operators) operators[name] = calls;
  return {{"name", method.name},
          {"inputs", json(method.inputs)},
          {"outputs", json(method.outputs)},
          {"delegates", delegates},
          {"operators", operators},
          {"planned_bytes", method.planned_bytes},
          {"moved_at_most", json(method.most)}};
}

OrderedJson json(const Target& device) {
  return {{"arch", device.arch}, {"os", device.os}, {"compute_capabilities", device.compute_capabilities}};
}

OrderedJson json(const Part& part) {
  OrderedJson found = {{"id", part.id}, {"backend", part.backend}, {"bytes", part.bytes}, {"sha256", part.sha256}};
  if (const auto& library = part.library) {
    found["requires"] = {{"product", library->product}, {"version", library->version}, {"libraries", library->files}};
  }
  return found;
}

OrderedJson json(const KernelLibrary& library) { return {{"library", library.name}, {"operators", library.operators}}; }

// Returns "needs TensorRT-RTX 1.6.1: libtensorrt_rtx.so.1".
std::string needed_text(const NeededLibrary& library) {
  std::string files;
  for (const std::string& file : library.files) files += (files.empty() ? "" : " or ") + file;
  return "needs " + library.product + " " + library.version + ": " + files;
}

// Returns the lines about the device, the versions and needed libraries, each with a line break before it.
std::string origin(const Description& program) {
  std::string text;
  if (program.device) {
    text += "\n  for " + one_line(program.device->os + " on " + program.device->arch);
    std::string separator = " with a GPU of compute capability ";
    for (const std::string& each : program.device->compute_capabilities) {
      text += separator + one_line(each);
      separator = " or ";
    }
  }
  std::string separator = "\n  made with ";
  for (const auto& [name, version] : program.versions) {
    text += separator + one_line(name + " " + version);
    separator = ", ";
  }
  std::set<std::string> needed;
  for (const Part& part : program.parts) {
    if (part.library && needed.insert(needed_text(*part.library)).second)
      text += "\n  " + one_line(needed_text(*part.library));
  }
  for (const KernelLibrary& library : program.kernels) {
    separator = "\n  needs the kernel library " + one_line(library.name) + " for ";
    for (const std::string& name : library.operators) {
      text += separator + one_line(name);
      separator = ", ";
    }
  }
  return text;
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string times(int number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace

std::string to_string(const Port& port) {
  if (port.kind != Kind::kTensor) {
    const bool fixed = !std::holds_alternative<std::monostate>(port.constant);
    return port.name + ": " + kind_name(port.kind) + (fixed ? " = " + dumped(json(port.constant)) : "");
  }
  std::string shape;
  for (const Dim& dim : port.shape) {
    shape += shape.empty() ? "" : ", ";
    if (dim.dynamic() && !dim.name.empty()) shape += dim.name + "=";
    if (dim.dynamic()) shape += std::to_string(dim.min) + "..";
    shape += std::to_string(dim.max);
  }
  const std::string where = port.device.cuda ? " on " + to_string(port.device) : "";
  return port.name + ": " + dtype_name(port.dtype) + "[" + shape + "]" + where;
}

const MethodDescription& Description::method(std::string_view name) const {
  if (name.empty() && methods.size() == 1) return methods.front();
  std::string known;
  for (const MethodDescription& each : methods) {
    if (each.name == (name.empty() ? "forward" : name)) return each;
    known += (known.empty() ? "" : ", ") + each.name;
  }
  const std::string problem = name.empty() ? "several methods" : "no method '" + std::string(name) + "'";
  throw Error(Error::Kind::kInput, path + ": " + problem + "; it has: " + known);
}

std::string Description::json() const {
  OrderedJson files = OrderedJson::array();
  for (const auto& [file, size] : data) files.push_back({{"path", file}, {"bytes", size}});
  OrderedJson found = {{"path", path}, {"bytes", bytes}, {"data", files}, {"methods", OrderedJson::array()}};
  for (const MethodDescription& each : methods) found["methods"].push_back(modelbuild::json(each));
  found["device"] = device ? modelbuild::json(*device) : OrderedJson();
  found["versions"] = versions;
  found["parts"] = OrderedJson::array();
  for (const Part& each : parts) found["parts"].push_back(modelbuild::json(each));
  found["kernels"] = OrderedJson::array();
  for (const KernelLibrary& each : kernels) found["kernels"].push_back(modelbuild::json(each));
  return dumped(found);
}

std::string Description::text() const {
  std::string text = one_line(path) + ": " + grouped(bytes) + " bytes";
  for (const auto& [file, size] : data) text += "\n  with " + one_line(file) + ": " + grouped(size) + " bytes";
  text += origin(*this);
  for (const MethodDescription& each : methods) {
    text += "\n  method " + one_line(each.name) + ", " + grouped(each.planned_bytes) + " bytes of activations";
    for (const Port& port : each.inputs) text += "\n    input  " + one_line(to_string(port));
    for (const Port& port : each.outputs) text += "\n    output " + one_line(to_string(port));
    for (const DelegateInfo& d : each.delegates) {
      text += "\n    " + one_line(d.backend) + ": " + times(d.parts, "part") + ", " + grouped(d.bytes) + " bytes";
    }
    if (const Transfers& most = each.most; most != Transfers{}) {
      text += "\n    a run on host memory moves at most " + grouped(most.copied_in + most.staged_in) +
              " bytes to the device and " + grouped(most.copied_out + most.staged_out) + " back, " +
              grouped(most.staged_in + most.staged_out) + " of them staged by delegates";
    }
    int calls = 0;
    for (const auto& [name, number] : each.operators) calls += number;
    if (calls != 0) {
      text += "\n    portable kernels: " + times(calls, "call") + " of " +
              times(static_cast<int>(each.operators.size()), "operator");
    }
  }
  return text;
}

namespace {

// Calls a function with a file's bytes, and adds the file's path to errors about its contents.
template <typename Do>
void read_file(const fs::path& path, SignedFiles* files, const char* kind, Do act) {
  const MappedFile file(files->content(path));
  try {
    act(file.bytes());
  } catch (const Damaged& problem) {
    throw Error(Error::Kind::kProgram, path.string() + ": is damaged: " + problem.what());
  } catch (const flatbuffer::Malformed& problem) {
    throw Error(Error::Kind::kProgram, path.string() + ": not " + kind + ": " + problem.what());
  }
}

Description read_program(const fs::path& path, SignedFiles* files, bool verify, const PluginFolders& folders,
                         ExternalReads* reads) {
  const auto on_gpu = [&, known = std::map<std::string, bool>()](const std::string& backend) mutable {
    const auto [found, added] = known.try_emplace(backend);
    if (const auto file = added ? read_delegate_file(folders, backend) : std::nullopt) found->second = file->gpu;
    return found->second;
  };
  Description found;
  std::string signature;
  read_file(path, files, "an ExecuTorch program", [&](flatbuffer::Bytes bytes) {
    const std::string_view manifest = read_manifest(bytes, verify);
    const PteFile file(bytes);
    *reads = check_pte(file);
    found = read_pte(file, on_gpu);
    signature = read_contents(manifest, &found);
  });
  found.path = path.string();
  apply_signature(path, signature, files, &found);
  return found;
}

// Removes the data that a file has from those that partitions read.
void check_data(const fs::path& path, SignedFiles* files, bool verify, ExternalReads* reads) {
  read_file(path, files, "external data of ExecuTorch", [&](flatbuffer::Bytes bytes) {
    read_manifest(bytes, verify);
    for (const auto& [name, size] : check_ptd(bytes)) {
      const auto read = reads->find(name);
      if (read == reads->end()) continue;
      if (read->second > size) {
        throw flatbuffer::Malformed("the data '" + name + "' have " + std::to_string(size) +
                                    " bytes; a partition reads " + std::to_string(read->second));
      }
      reads->erase(read);
    }
  });
}

}  // namespace

Description describe(const fs::path& path, std::vector<fs::path> data, bool verify, std::vector<fs::path> plugin_dirs) {
  return describe(path, std::move(data), verify, std::move(plugin_dirs), {});
}

Description describe(const fs::path& path, std::vector<fs::path> data, bool verify, std::vector<fs::path> plugin_dirs,
                     const std::vector<fs::path>& keys) {
  return with_errors([&] {
    SignedFiles files(keys);
    return describe(files.program(path),
                    {.data = std::move(data), .plugin_dirs = std::move(plugin_dirs), .verify = verify}, &files);
  });
}

Description describe(const fs::path& path, const LoadOptions& options, SignedFiles* files) {
  ExternalReads reads;
  Description found = read_program(path, files, options.verify, PluginFolders(options.plugin_dirs), &reads);
  std::vector<fs::path> data = options.data;
  if (data.empty()) data = beside(path, found);
  for (const fs::path& each : data) {
    if (!fs::is_regular_file(each)) throw Error(Error::Kind::kProgram, each.string() + ": no such file");
    check_data(each, files, options.verify, &reads);
    found.data.emplace_back(each.string(), fs::file_size(files->content(each)));
  }
  if (!reads.empty()) {
    throw Error(Error::Kind::kProgram,
                path.string() + ": the data '" + reads.begin()->first + "' of a partition are in no file");
  }
  if (!found.external.empty() && data.empty()) {
    throw Error(Error::Kind::kProgram, path.string() + ": " + std::to_string(found.external.size()) +
                                           " of its tensors are in a .ptd, and there is none beside it");
  }
  return found;
}

}  // namespace modelbuild
