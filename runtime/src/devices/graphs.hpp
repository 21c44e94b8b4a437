// CUDA graphs of a method's runs, each for the shapes and addresses of its recording.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "devices/device_services.hpp"

namespace modelbuild {

class Graphs {
 public:
  using Key = std::vector<std::uintptr_t>;
  struct Graph {
    Key key;
    std::unique_ptr<Recording> recording;
    std::vector<Value> outputs;
  };

  // Throws Error of kind kInput, with the reason, if a run of the method on these tensors cannot be a graph.
  static Key key(const MethodDescription& method, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  const Graph* find(const Key& key) const;
  void add(Graph graph);  // removes the oldest if there are too many

  // A run is recorded if the previous one was the same, so that delegates have done their setup for it.
  std::optional<Key> last;

 private:
  std::deque<Graph> graphs_;
};

}  // namespace modelbuild
