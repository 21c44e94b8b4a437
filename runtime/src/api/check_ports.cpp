#include "api/check_ports.hpp"

#include <algorithm>

#include "api/fail.hpp"

namespace modelbuild {
namespace {

std::string text(const std::vector<std::int64_t>& shape) {
  std::string found;
  for (const std::int64_t size : shape) found += (found.empty() ? "" : ", ") + std::to_string(size);
  return "[" + found + "]";
}

bool fits(const std::vector<Dim>& shape, const std::vector<std::int64_t>& sizes) {
  if (shape.size() != sizes.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (sizes[i] < shape[i].min || sizes[i] > shape[i].max) return false;
  }
  return true;
}

using Sizes = std::map<std::string, std::pair<std::int64_t, std::string>>;

void check(const Port& port, const Tensor& given, Sizes* known) {
  check_input(port, given.dtype, given.shape);
  if (given.data == nullptr && given.numel() != 0) fail_input("input '" + port.name + "': no data");
  for (std::size_t i = 0; i < port.shape.size(); ++i) {
    const Dim& dim = port.shape[i];
    if (!dim.dynamic() || dim.name.empty()) continue;
    const auto [entry, fresh] = known->emplace(dim.name, std::pair(given.shape[i], port.name));
    if (!fresh && entry->second.first != given.shape[i]) {
      fail_input("input '" + port.name + "': dimension " + dim.name + " is " + std::to_string(given.shape[i]) +
                 ", but " + std::to_string(entry->second.first) + " in input '" + entry->second.second + "'");
    }
  }
  if (given.device.cuda && !port.host_kernel.empty()) {
    fail_input("input '" + port.name + "' lies on " + to_string(given.device) + ", but " + port.host_kernel +
               " reads it on the CPU");
  }
}

}  // namespace

void check_input(const Port& port, DType dtype, const std::vector<std::int64_t>& shape) {
  if (dtype != port.dtype) {
    fail_input("input '" + port.name + "': expected " + dtype_name(port.dtype) + ", got " + dtype_name(dtype));
  }
  if (!fits(port.shape, shape)) fail_input("input " + to_string(port) + ": got shape " + text(shape));
}

void check_inputs(const MethodDescription& method, std::span<const Tensor> inputs) {
  std::string expected;
  std::size_t tensors = 0;
  for (const Port& port : method.inputs) {
    if (port.kind != Kind::kTensor) continue;
    ++tensors;
    expected += (expected.empty() ? "" : ", ") + to_string(port);
  }
  if (inputs.size() != tensors) {
    fail_input(std::to_string(inputs.size()) + " inputs given, " + std::to_string(tensors) +
               " expected: " + (expected.empty() ? "none" : expected));
  }
  Sizes known;
  std::size_t next = 0;
  for (const Port& port : method.inputs) {
    if (port.kind == Kind::kTensor) check(port, inputs[next++], &known);
  }
}

void check_outputs(const MethodDescription& method, std::span<const Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& given = outputs[i];
    if (given.data == nullptr) continue;
    if (i >= method.outputs.size() || method.outputs[i].kind != Kind::kTensor) {
      fail_input("output " + std::to_string(i) + " is not a tensor of " + method.name);
    }
    const Port& port = method.outputs[i];
    const bool negative =
        std::any_of(given.shape.begin(), given.shape.end(), [](std::int64_t size) { return size < 0; });
    if (given.dtype != port.dtype || given.shape.size() != port.shape.size() || negative) {
      fail_input("output " + to_string(port) + ": got memory for " + dtype_name(given.dtype) + text(given.shape));
    }
    if (given.device.cuda && !port.host_kernel.empty()) {
      fail_input("output '" + port.name + "' is to lie on " + to_string(given.device) + ", but " + port.host_kernel +
                 " works on it on the CPU");
    }
  }
}

}  // namespace modelbuild
