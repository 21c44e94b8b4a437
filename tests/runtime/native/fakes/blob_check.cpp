// blob_check FILE...: prints the result of the TensorRT delegate's parser for each blob, one line each: "ok ..." or
// "bad ...".
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "blob.hpp"

using modelbuild::tensorrt::BadBlob;
using modelbuild::tensorrt::Blob;
using modelbuild::tensorrt::parse_blob;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string describe(const Bytes& bytes) {
  try {
    const Blob blob = parse_blob(bytes);
    std::string text = "ok cuda:" + std::to_string(blob.device) + " in";
    for (const std::string& name : blob.inputs) text += " " + name;
    text += " out";
    for (const std::string& name : blob.outputs) text += " " + name;
    text += " aliases " + std::to_string(blob.aliases.size());
    return text + " engine " + std::to_string(blob.engine.size());
  } catch (const BadBlob& problem) {
    return std::string("bad ") + problem.what();
  }
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) std::printf("%s\n", describe(read(arguments[i])).c_str());
  return 0;
}
