#include "devices/graphs.hpp"

#include <algorithm>

namespace modelbuild {
namespace {

// Callers typically alternate between two or three sets of buffers; graphs do not pay off with many more.
constexpr std::size_t kMost = 8;

[[noreturn]] void fail(const MethodDescription& method, const std::string& why) {
  throw Error(Error::Kind::kInput, "a run of '" + method.name + "' cannot be a CUDA graph: " + why);
}

void add(const Tensor& tensor, Graphs::Key* key) {
  key->push_back(reinterpret_cast<std::uintptr_t>(tensor.data));
  key->push_back(tensor.shape.size());
  for (const std::int64_t size : tensor.shape) key->push_back(static_cast<std::uintptr_t>(size));
}

}  // namespace

Graphs::Key Graphs::key(const MethodDescription& method, std::span<const Tensor> inputs,
                        std::span<const Tensor> outputs) {
  std::string kernels;
  for (const auto& [name, calls] : method.operators) kernels += (kernels.empty() ? "" : ", ") + name;
  if (!kernels.empty()) fail(method, "the CPU runs " + kernels);
  if (method.branches) fail(method, "its instructions depend on its data");
  if (method.delegates.empty() || device_services() == nullptr) fail(method, "no part of it runs on a GPU");
  Key key;
  std::size_t next = 0;
  for (const Port& port : method.inputs) {
    if (port.kind != Kind::kTensor) continue;
    const Tensor& given = inputs[next++];
    if (!given.device.cuda && given.numel() != 0) fail(method, "input '" + port.name + "' lies on the host");
    modelbuild::add(given, &key);
  }
  for (const Tensor& given : outputs) modelbuild::add(given, &key);
  return key;
}

const Graphs::Graph* Graphs::find(const Key& key) const {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const Graph& each) { return each.key == key; });
  return found == graphs_.end() ? nullptr : &*found;
}

void Graphs::add(Graph graph) {
  if (graphs_.size() == kMost) graphs_.pop_front();
  graphs_.push_back(std::move(graph));
}

}  // namespace modelbuild
