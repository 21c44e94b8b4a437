// The TensorRT delegate's parser, on any bytes. Reads all of the engine, so that a sanitizer sees bytes that are not
// there.
#include <numeric>

#include "blob.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static volatile unsigned sum = 0;
  try {
    const auto blob = modelbuild::tensorrt::parse_blob({data, size});
    sum = std::accumulate(blob.engine.begin(), blob.engine.end(), 0U);
  } catch (const modelbuild::tensorrt::BadBlob&) {
  }
  return 0;
}
