#include "pictures/picture.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "pictures/pixels.hpp"
#include "pictures/resize.hpp"
#include "pictures/system_library.hpp"

namespace modelbuild {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::size_t kMostPixels = 178'956'970;  // Pillow's limit
constexpr std::uintmax_t kMostBytes = 1U << 30;

[[noreturn]] void fail(const Port& port, const std::filesystem::path& path, const std::string& problem) {
  throw Error(Error::Kind::kInput, "input '" + port.name + "': " + path.string() + problem);
}

std::vector<char> content(const Port& port, const std::filesystem::path& path) {
  std::error_code problem;
  const std::uintmax_t size = std::filesystem::file_size(path, problem);
  if (problem) fail(port, path, ": " + problem.message());
  if (size > kMostBytes) fail(port, path, " is no picture: it has more than 1 GiB");
  std::ifstream file(path, std::ios::binary);  // a regular file, so opening does not block
  std::vector<char> bytes(size);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size)))
    fail(port, path, std::string(": ") + std::strerror(errno));
  return bytes;
}

// The position of a picture's channels, height and width in an input's shape.
struct Layout {
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;

  bool first() const { return channels < height; }
};

bool takes(const Dim& dim, std::int64_t size) { return dim.min <= size && size <= dim.max; }

// Returns the possible layouts of a picture: N,C,H,W and C,H,W, then N,H,W,C and H,W,C.
std::vector<Layout> layouts(const std::vector<Dim>& shape) {
  const std::size_t rank = shape.size();
  if ((rank != 3 && rank != 4) || (rank == 4 && !takes(shape[0], 1))) return {};
  std::vector<Layout> found;
  for (const Layout& each : {Layout{rank - 3, rank - 2, rank - 1}, Layout{rank - 1, rank - 3, rank - 2}}) {
    const Dim& dim = shape[each.channels];
    if (!dim.dynamic() && (dim.max == 1 || dim.max == 3 || dim.max == 4)) found.push_back(each);
  }
  return found;
}

bool is_float(DType type) {
  return type == DType::kFloat16 || type == DType::kFloat32 || type == DType::kFloat64 || type == DType::kBfloat16;
}

std::vector<Layout> checked_layouts(const Port& port, const std::filesystem::path& path) {
  std::vector<Layout> found = layouts(port.shape);
  if (found.empty()) {
    fail(port, path,
         ": " + to_string(port) + " takes no picture: neither dimension 1 nor the last one is 1, 3 or 4 channels");
  }
  if (port.dtype != DType::kUint8 && !is_float(port.dtype)) {
    fail(port, path, ": a picture needs uint8 or a float type, not " + dtype_name(port.dtype));
  }
  if (port.dtype != DType::kUint8 && !port.range) {
    fail(port, path,
         ": the model does not declare which range 0..255 is mapped to; give the input a range, or pass .npy");
  }
  return found;
}

// Chooses the layout for which a picture's size fits, and the size of the result.
class Choice {
 public:
  Choice(const Port& port, const std::filesystem::path& path, bool resize)
      : port_(port), path_(path), resize_(resize), layouts_(checked_layouts(port, path)) {}

  void choose(std::size_t picture_width, std::size_t picture_height) {
    if (picture_width > kMostPixels / picture_height) {
      fail(port_, path_, " is no picture: more than " + std::to_string(kMostPixels) + " pixels");
    }
    width = picture_width;
    height = picture_height;
    const auto fits = [this](const Layout& each) {
      return takes(port_.shape[each.height], static_cast<std::int64_t>(height)) &&
             takes(port_.shape[each.width], static_cast<std::int64_t>(width));
    };
    const auto found = std::find_if(layouts_.begin(), layouts_.end(), fits);
    layout = found == layouts_.end() ? layouts_.front() : *found;
    if (found != layouts_.end()) return;
    const Dim& tall = port_.shape[layout.height];
    const Dim& wide = port_.shape[layout.width];
    const bool fixed = !tall.dynamic() && !wide.dynamic() && tall.max > 0 && wide.max > 0;
    if (!resize_ || !fixed) {
      fail(port_, path_,
           ": expected " + to_string(port_) + ", got a picture " + std::to_string(width) + " wide and " +
               std::to_string(height) + " high" + (resize_ ? "; --resize needs a fixed height and width" : ""));
    }
    width = static_cast<std::size_t>(wide.max);
    height = static_cast<std::size_t>(tall.max);
  }

  Shape shape() const {
    Shape found(port_.shape.size(), 1);
    found[layout.channels] = static_cast<std::int64_t>(channels());
    found[layout.height] = static_cast<std::int64_t>(height);
    found[layout.width] = static_cast<std::int64_t>(width);
    return found;
  }

  std::size_t channels() const { return static_cast<std::size_t>(port_.shape[layout.channels].max); }

  Layout layout;
  std::size_t width = 0;
  std::size_t height = 0;

 private:
  const Port& port_;
  const std::filesystem::path& path_;
  bool resize_;
  std::vector<Layout> layouts_;
};

Pixels decode(const Port& port, const std::filesystem::path& path, const AcceptSize& accept) {
  const std::vector<char> bytes = content(port, path);
  const std::string_view text(bytes.data(), bytes.size());
  try {
    if (text.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, accept);
    if (text.starts_with("\xff\xd8\xff")) return decode_jpeg(bytes, accept);
  } catch (const PictureError& error) {
    fail(port, path, std::string(" is no picture: ") + error.what());
  } catch (const MissingLibrary& error) {
    throw Error(Error::Kind::kProgram, "input '" + port.name + "': " + path.string() + " needs " + error.what());
  }
  fail(port, path, " is no picture: expected a PNG or a JPEG");
}

// Returns RGBA with fewer channels; gray has the weights of ITU-R 601-2.
Pixels with_channels(Pixels rgba, std::size_t channels) {
  if (channels == 4) return rgba;
  Pixels found(rgba.width, rgba.height, channels);
  const std::uint8_t* from = rgba.bytes.data();
  for (std::size_t at = 0; at < found.bytes.size(); at += channels, from += 4) {
    if (channels == 3) {
      std::copy_n(from, 3, &found.bytes[at]);
    } else {
      found.bytes[at] = static_cast<std::uint8_t>((from[0] * 19595 + from[1] * 38470 + from[2] * 7471 + 0x8000) >> 16);
    }
  }
  return found;
}

template <typename Number>
std::vector<char> converted(const std::array<double, 256>& values) {
  std::array<Number, 256> found{};
  std::transform(values.begin(), values.end(), found.begin(), [](double value) { return static_cast<Number>(value); });
  const auto* bytes = reinterpret_cast<const char*>(found.data());
  return {bytes, bytes + sizeof found};
}

// Returns the element for each byte.
std::vector<char> elements(const Port& port) {
  std::array<double, 256> values{};
  const auto [low, high] = port.dtype == DType::kUint8 ? std::pair(0.0, 255.0) : *port.range;
  for (std::size_t byte = 0; byte < values.size(); ++byte) {
    values[byte] = static_cast<double>(byte) * ((high - low) / 255.0) + low;
  }
  switch (port.dtype) {
    case DType::kUint8:
      return converted<std::uint8_t>(values);
    case DType::kFloat16:
      return converted<_Float16>(values);
    case DType::kFloat64:
      return converted<double>(values);
    case DType::kBfloat16:
      return to_bfloat16({DType::kFloat32, {256}, converted<float>(values)}).data;
    default:
      return converted<float>(values);
  }
}

}  // namespace

bool is_picture(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

Array read_picture(const Port& port, const std::filesystem::path& path, bool resize) {
  Choice choice(port, path, resize);
  Pixels decoded = decode(port, path, [&](std::size_t width, std::size_t height) { choice.choose(width, height); });
  const Pixels pixels =
      modelbuild::resize(with_channels(std::move(decoded), choice.channels()), choice.width, choice.height);

  Array array{port.dtype, choice.shape(), std::vector<char>(pixels.bytes.size() * dtype_size(port.dtype))};
  const std::vector<char> element = elements(port);
  const std::size_t size = dtype_size(port.dtype);
  const std::size_t count = pixels.width * pixels.height;
  for (std::size_t i = 0; i < pixels.bytes.size(); ++i) {
    const std::size_t at = choice.layout.first() ? i % pixels.channels * count + i / pixels.channels : i;
    std::memcpy(&array.data[at * size], &element[pixels.bytes[i] * size], size);
  }
  return array;
}

}  // namespace modelbuild
