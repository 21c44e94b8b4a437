// What reads a signature.json, on any bytes.
#include <unistd.h>

#include <fstream>

#include "files/signature.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace modelbuild;
  static const std::filesystem::path folder = std::filesystem::temp_directory_path() / std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "signature.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  Description program;
  SignedFiles files({});
  program.methods.resize(1);
  MethodDescription& method = program.methods.front();
  const std::vector<Dim> shape = {{0, 8, ""}, {4, 4, ""}};
  method.inputs = {{"", Kind::kTensor, DType::kFloat32, shape, {0, 1}, {}, false, {}, {}, ""}};
  method.outputs = method.inputs;
  try {
    apply_signature(folder / "x.pte", "", &files, &program);
    static_cast<void>(program.json().size() + program.text().size());
  } catch (const Error&) {
  }
  std::filesystem::remove_all(folder);
  return 0;
}
