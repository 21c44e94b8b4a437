// Decoded pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

namespace modelbuild {

// Row by row, with the channels of a pixel together.
struct Pixels {
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t channels = 0;  // 1: gray, 3: RGB, 4: RGBA
  std::vector<std::uint8_t> bytes;

  Pixels(std::size_t w, std::size_t h, std::size_t c) : width(w), height(h), channels(c), bytes(w * h * c) {}
};

// Checks a picture's size before its pixels are decoded. Throws to reject it.
using AcceptSize = std::function<void(std::size_t width, std::size_t height)>;

// The message states why a file is not decoded, without its path.
class PictureError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// These return RGBA. They throw PictureError for a damaged file, and MissingLibrary without the system's library.
Pixels decode_png(std::span<const char> file, const AcceptSize& accept);   // libpng16.so.16
Pixels decode_jpeg(std::span<const char> file, const AcceptSize& accept);  // libturbojpeg.so.0

}  // namespace modelbuild
