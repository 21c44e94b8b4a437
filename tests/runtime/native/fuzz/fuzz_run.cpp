// Loads any bytes as a program without a manifest, and runs its methods: no kernel and no delegate may trust a number
// in it.
#include <list>

#include "api/log.hpp"
#include "delegates/plugins.hpp"
#include "files/describe.hpp"
#include "memory_file.hpp"

namespace {

using namespace modelbuild;

// Memory for an input of small numbers: valid indices for most kernels. Throws Error if it is too large.
std::vector<char> input(const Port& port, Tensor* tensor) {
  tensor->dtype = port.dtype;
  for (const Dim& dim : port.shape) tensor->shape.push_back(dim.max);
  if (tensor->nbytes() > 1 << 20) throw Error(Error::Kind::kInput, "too large");
  std::vector<char> bytes(tensor->nbytes());
  if (port.dtype == DType::kInt64) {
    for (std::size_t i = 0; i < bytes.size(); i += 8) bytes[i] = static_cast<char>(i / 8 % 3);
  }
  tensor->data = bytes.data();
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  static const LoadOptions options{
      .plugin_dirs = {std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../lib"}, .verify = false};
  set_log(LogLevel::kOff);
  try {
    const std::unique_ptr<Program> program = Program::load(file.write(data, size), options);
    for (const MethodDescription& method : program->describe().methods) {
      std::list<std::vector<char>> memory;
      std::vector<Tensor> inputs;
      for (const Port& port : method.inputs) {
        if (port.kind == Kind::kTensor) memory.push_back(input(port, &inputs.emplace_back()));
      }
      try {
        for (int run = 0; run < 2; ++run) program->run(method.name, inputs);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
