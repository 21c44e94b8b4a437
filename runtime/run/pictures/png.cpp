// By libpng's classic API. Its simplified API would apply the gamma of a file.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "pictures/pixels.hpp"
#include "pictures/system_library.hpp"

namespace modelbuild {
namespace {

// Of png.h, version 1.6.
constexpr int kGray = 0;
constexpr int kRgb = 2;
constexpr int kPalette = 3;
constexpr int kNever = 1;
constexpr int kQuit = 1;
constexpr int kAfter = 1;

struct Color {
  std::uint8_t index;
  std::uint16_t red, green, blue, gray;
};

using Report = void (*)(void* png, const char* message);

struct LibPng {
  const char* (*version)(const void*);
  void* (*create)(const char* version, void* user, Report error, Report warning);
  void* (*create_info)(void*);
  void (*destroy)(void** png, void** info, void** end);
  void* (*user)(const void*);
  void (*set_reader)(void*, void* user, void (*read)(void*, unsigned char*, std::size_t));
  void (*keep_unknown)(void*, int keep, const unsigned char* names, int count);
  void (*set_crc)(void*, int critical, int ancillary);
  void (*allow_benign)(void*, int allowed);
  void (*read_info)(void*, void* info);
  unsigned (*header)(const void*, const void* info, std::uint32_t* width, std::uint32_t* height, int* depth, int* type,
                     int* interlace, int* compression, int* filter);
  unsigned (*transparent)(const void*, void* info, unsigned char** alpha, int* count, Color** color);
  void (*expand_palette)(void*);
  void (*expand_gray)(void*);
  void (*gray_to_rgb)(void*);
  void (*strip_16)(void*);
  void (*add_alpha)(void*, std::uint32_t alpha, int where);
  int (*interlace)(void*);
  void (*update_info)(void*, void* info);
  std::size_t (*row_bytes)(const void*, const void* info);
  void (*read_image)(void*, unsigned char** rows);
};

const LibPng& libpng() {
  static const LibPng found = [] {
    const SystemLibrary library("libpng16.so.16", "libpng16-16");
    LibPng functions{};
    library.find(&functions.version, "png_get_libpng_ver");
    library.find(&functions.create, "png_create_read_struct");
    library.find(&functions.create_info, "png_create_info_struct");
    library.find(&functions.destroy, "png_destroy_read_struct");
    library.find(&functions.user, "png_get_error_ptr");
    library.find(&functions.set_reader, "png_set_read_fn");
    library.find(&functions.keep_unknown, "png_set_keep_unknown_chunks");
    library.find(&functions.set_crc, "png_set_crc_action");
    library.find(&functions.allow_benign, "png_set_benign_errors");
    library.find(&functions.read_info, "png_read_info");
    library.find(&functions.header, "png_get_IHDR");
    library.find(&functions.transparent, "png_get_tRNS");
    library.find(&functions.expand_palette, "png_set_palette_to_rgb");
    library.find(&functions.expand_gray, "png_set_expand_gray_1_2_4_to_8");
    library.find(&functions.gray_to_rgb, "png_set_gray_to_rgb");
    library.find(&functions.strip_16, "png_set_strip_16");
    library.find(&functions.add_alpha, "png_set_add_alpha");
    library.find(&functions.interlace, "png_set_interlace_handling");
    library.find(&functions.update_info, "png_read_update_info");
    library.find(&functions.row_bytes, "png_get_rowbytes");
    library.find(&functions.read_image, "png_read_image");
    return functions;
  }();
  return found;
}

// What libpng's callbacks use.
struct Input {
  std::span<const char> left;
  std::jmp_buf failed;
  std::array<char, 160> problem;
};

void stop(Input* input, const char* problem) {
  std::snprintf(input->problem.data(), input->problem.size(), "%s", problem);
  std::longjmp(input->failed, 1);
}

void on_error(void* png, const char* message) { stop(static_cast<Input*>(libpng().user(png)), message); }

void on_warning(void* /*png*/, const char* /*message*/) {}

void read_bytes(void* png, unsigned char* bytes, std::size_t count) {
  auto* input = static_cast<Input*>(libpng().user(png));
  if (count > input->left.size()) stop(input, "it ends too early");
  std::memcpy(bytes, input->left.data(), count);
  input->left = input->left.subspan(count);
}

class Png {
 public:
  explicit Png(std::span<const char> file) {
    input_.left = file;
    png_ = libpng().create(libpng().version(nullptr), &input_, on_error, on_warning);
    if (png_ != nullptr) info_ = libpng().create_info(png_);
    if (info_ != nullptr) return;
    libpng().destroy(&png_, &info_, nullptr);
    throw std::bad_alloc();
  }
  ~Png() { libpng().destroy(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  // Both return false after an error, from which libpng jumps: no local variable here has a destructor.
  bool read_header() {
    if (setjmp(input_.failed) != 0) return false;
    const LibPng& library = libpng();
    library.set_reader(png_, &input_, read_bytes);
    library.keep_unknown(png_, kNever, nullptr, -1);  // neither texts nor color profiles
    library.set_crc(png_, kQuit, kQuit);
    library.allow_benign(png_, 0);
    library.read_info(png_, info_);
    library.header(png_, info_, &width, &height, &depth_, &type_, nullptr, nullptr, nullptr);
    return true;
  }

  bool read_rows(unsigned char** rows) {
    if (setjmp(input_.failed) != 0) return false;
    const LibPng& library = libpng();
    if (type_ == kPalette) {
      library.expand_palette(png_);
    } else {
      library.expand_gray(png_);
      library.gray_to_rgb(png_);
    }
    library.strip_16(png_);
    library.add_alpha(png_, 255, kAfter);
    library.interlace(png_);
    library.update_info(png_, info_);
    if (library.row_bytes(png_, info_) != std::size_t{4} * width) stop(&input_, "its pixels have an unknown form");
    library.read_image(png_, rows);
    return true;
  }

  // Returns the transparent color of a picture without a palette. Pillow compares the bytes that it decoded with the
  // lower bytes in the file, and ignores the color for 16 bits of gray.
  std::optional<std::array<std::uint8_t, 3>> transparent() {
    Color* color = nullptr;
    const bool ignored = (type_ != kGray && type_ != kRgb) || (type_ == kGray && depth_ == 16);
    if (ignored || libpng().transparent(png_, info_, nullptr, nullptr, &color) == 0 || color == nullptr) return {};
    const auto lower = [](std::uint16_t value) { return static_cast<std::uint8_t>(value & 255U); };
    if (type_ == kRgb) return {{lower(color->red), lower(color->green), lower(color->blue)}};
    const std::uint8_t gray = depth_ > 1 ? lower(color->gray) : color->gray != 0 ? 255 : 0;
    return {{gray, gray, gray}};
  }

  PictureError error() const { return PictureError(input_.problem.data()); }

  std::uint32_t width = 0;
  std::uint32_t height = 0;

 private:
  Input input_{};
  void* png_ = nullptr;
  void* info_ = nullptr;
  int depth_ = 0;
  int type_ = 0;
};

}  // namespace

Pixels decode_png(std::span<const char> file, const AcceptSize& accept) {
  Png png(file);
  if (!png.read_header()) throw png.error();
  accept(png.width, png.height);
  Pixels pixels(png.width, png.height, 4);
  std::vector<unsigned char*> rows(pixels.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.bytes.data() + y * pixels.width * 4;
  const auto transparent = png.transparent();
  if (!png.read_rows(rows.data())) throw png.error();
  if (!transparent) return pixels;
  for (std::size_t at = 0; at < pixels.bytes.size(); at += 4) {
    if (std::equal(transparent->begin(), transparent->end(), &pixels.bytes[at])) pixels.bytes[at + 3] = 0;
  }
  return pixels;
}

}  // namespace modelbuild
