// blob_check FILE...: what the TensorRT delegate's parser says of each blob,
// one line each: "ok ..." or "bad ...". blob_check --mutate SEED COUNT FILE:
// parses COUNT damaged copies; prints how many were still blobs.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
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

// Reads all of the engine, so that a sanitizer sees bytes that are not there.
std::size_t touch(const Blob& blob) {
  std::size_t sum = 0;
  for (const std::uint8_t byte : blob.engine) sum += byte;
  return sum;
}

void mutate(unsigned seed, int count, const Bytes& whole) {
  std::mt19937 random(seed);
  int still = 0;
  std::size_t sum = 0;
  for (int i = 0; i < count; ++i) {
    Bytes bytes(whole);
    const unsigned edits = 1 + random() % 4;
    for (unsigned edit = 0; edit < edits && !bytes.empty(); ++edit) {
      // Half of the damage in the header, where the lengths are.
      const std::size_t at = random() % (random() % 2 != 0 ? std::min<std::size_t>(bytes.size(), 32) : bytes.size());
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<std::uint8_t>(random());
          break;
        case 1:
          bytes[at] = random() % 2 != 0 ? 0xff : 0;
          break;
        case 2:
          bytes.resize(at);
          break;
        case 3:
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::uint8_t>(random()));
          break;
        default:
          bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    bytes.shrink_to_fit();
    try {
      sum += touch(parse_blob(bytes));
      ++still;
    } catch (const BadBlob&) {
    }
  }
  std::printf("%d of %d are blobs still (%zu)\n", still, count, sum % 10);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 5 && std::strcmp(arguments[1], "--mutate") == 0) {
    mutate(static_cast<unsigned>(std::atoi(arguments[2])), std::atoi(arguments[3]), read(arguments[4]));
    return 0;
  }
  for (int i = 1; i < count; ++i) std::printf("%s\n", describe(read(arguments[i])).c_str());
  return 0;
}
