// Reads arbitrary bytes as a .npy, for an input of less than a megabyte.
#include "memory_file.hpp"
#include "npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace modelbuild;
  static MemoryFile file;
  try {
    read_npy(file.write(data, size), [](DType dtype, const std::vector<std::int64_t>& shape) {
      if (Tensor{nullptr, dtype, shape, {}}.nbytes() > 1 << 20) throw Error(Error::Kind::kInput, "too big");
    });
  } catch (const Error&) {
  }
  return 0;
}
