// Runs of a method that are kept as CUDA graphs, each for the shapes and addresses that it was recorded with.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device_services.hpp"

namespace modelbuild {

class Graphs {
 public:
  using Key = std::vector<std::uintptr_t>;
  struct Graph {
    Key key;
    std::unique_ptr<Recording> recording;
    std::vector<Value> outputs;
  };

  // Throws Error of kind kInput where a run of the method on these tensors cannot be one graph, and says why.
  static Key key(const MethodDescription& method, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  const Graph* find(const Key& key) const;
  void add(Graph graph);  // the oldest goes where there are too many

  // A run is recorded when the one right before it was the same: whatever delegates set up for it is in place then.
  std::optional<Key> last;

 private:
  std::deque<Graph> graphs_;
};

}  // namespace modelbuild
