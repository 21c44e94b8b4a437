// Decodes arbitrary bytes as a picture of less than a megapixel, and resizes it.
#include "pictures/resize.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace modelbuild;
  const std::span<const char> file(reinterpret_cast<const char*>(data), size);
  const auto accept = [](std::size_t width, std::size_t height) {
    if (width > (1U << 20) / height) throw PictureError("too big");
  };
  try {
    resize(size > 0 && data[0] == 0x89 ? decode_png(file, accept) : decode_jpeg(file, accept), 9, 7);
  } catch (const PictureError&) {
  }
  return 0;
}
