// By libturbojpeg's API, whose functions take and return only numbers and pointers to bytes, so that it is the same for
// each version since 1.4. libjpeg's API has structures that differ between distributions.
#include <memory>

#include "pictures/pixels.hpp"
#include "pictures/system_library.hpp"

namespace modelbuild {
namespace {

// Of turbojpeg.h.
constexpr int kRgba = 7;
constexpr int kCmykPixels = 11;
constexpr int kCmyk = 3;
constexpr int kYcck = 4;
constexpr int kAccurateDct = 4096;

struct TurboJpeg {
  void* (*create)();
  int (*destroy)(void*);
  int (*header)(void*, const unsigned char* file, unsigned long size, int* width, int* height, int* sampling,
                int* space);
  int (*decompress)(void*, const unsigned char* file, unsigned long size, unsigned char* pixels, int width, int pitch,
                    int height, int format, int flags);
  char* (*problem)(void*);
};

const TurboJpeg& turbojpeg() {
  static const TurboJpeg found = [] {
    const SystemLibrary library("libturbojpeg.so.0", "libturbojpeg0");
    TurboJpeg functions{};
    library.find(&functions.create, "tjInitDecompress");
    library.find(&functions.destroy, "tjDestroy");
    library.find(&functions.header, "tjDecompressHeader3");
    library.find(&functions.decompress, "tjDecompress2");
    library.find(&functions.problem, "tjGetErrorStr2");
    return functions;
  }();
  return found;
}

// Converts CMYK with inverted values, as Adobe's programs write them, to RGBA.
void to_rgba(Pixels* pixels) {
  for (std::size_t at = 0; at < pixels->bytes.size(); at += 4) {
    std::uint8_t* pixel = &pixels->bytes[at];
    const unsigned light = pixel[3];
    for (int i = 0; i < 3; ++i) {
      const unsigned product = (255U - pixel[i]) * light + 128;
      pixel[i] = static_cast<std::uint8_t>(light - ((product >> 8) + product) / 256);
    }
    pixel[3] = 255;
  }
}

}  // namespace

Pixels decode_jpeg(std::span<const char> file, const AcceptSize& accept) {
  const TurboJpeg& library = turbojpeg();
  const std::unique_ptr<void, int (*)(void*)> decoder(library.create(), library.destroy);
  if (!decoder) throw std::bad_alloc();
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  int width = 0;
  int height = 0;
  int sampling = 0;
  int space = -1;
  // The status is no success for unusual sampling, which can be decoded, and for warnings, which are repeated below. It
  // is one for a file without a picture.
  const int status = library.header(decoder.get(), bytes, file.size(), &width, &height, &sampling, &space);
  if (width < 1 || height < 1 || space < 0) {
    throw PictureError(status != 0 ? library.problem(decoder.get()) : "it has no pixels");
  }
  accept(static_cast<std::size_t>(width), static_cast<std::size_t>(height));

  Pixels pixels(static_cast<std::size_t>(width), static_cast<std::size_t>(height), 4);
  const bool cmyk = space == kCmyk || space == kYcck;
  const int format = cmyk ? kCmykPixels : kRgba;
  // Warnings are of damage, after which pixels are guesses.
  if (library.decompress(decoder.get(), bytes, file.size(), pixels.bytes.data(), width, width * 4, height, format,
                         kAccurateDct) != 0) {
    throw PictureError(library.problem(decoder.get()));
  }
  if (cmyk) to_rgba(&pixels);
  return pixels;
}

}  // namespace modelbuild
