// The format: numpy/lib/format.py. A magic, a version, the length of a header, the header (a Python dictionary with the
// keys descr, fortran_order and shape), the elements.
#include "npy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "method/layout.hpp"

namespace modelbuild {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

constexpr std::size_t kMostDimensions = 64;  // of numpy's arrays

struct Descr {
  std::string_view text;
  DType type;
};
constexpr std::array<Descr, 12> kDescrs = {{{"|u1", DType::kUint8},
                                            {"|i1", DType::kInt8},
                                            {"<i2", DType::kInt16},
                                            {"<i4", DType::kInt32},
                                            {"<i8", DType::kInt64},
                                            {"<f2", DType::kFloat16},
                                            {"<f4", DType::kFloat32},
                                            {"<f8", DType::kFloat64},
                                            {"|b1", DType::kBool},
                                            {"<u2", DType::kUint16},
                                            {"<u4", DType::kUint32},
                                            {"<u8", DType::kUint64}}};

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw Error(Error::Kind::kInput, path.string() + " is not a readable .npy file: " + why);
}

// Parses the header's dictionary in the form that numpy writes; any other form is an error.
class Header {
 public:
  Header(const std::filesystem::path& path, std::string_view text) : path_(path), text_(text) {
    expect('{');
    while (!at('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran = word() == "True";
      } else if (key == "shape") {
        read_shape();
      } else {
        fail(path_, "unknown key '" + std::string(key) + "' in its header");
      }
      if (!at('}')) expect(',');
    }
    if (descr.empty() || !shaped_) fail(path_, "its header lacks descr or shape");
  }

  std::string_view descr;
  bool fortran = false;
  std::vector<std::int64_t> shape;

 private:
  bool at(char wanted) {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size()));
    return !text_.empty() && text_.front() == wanted;
  }

  void expect(char wanted) {
    if (!at(wanted)) fail(path_, std::string("expected ") + wanted + " in its header");
    text_.remove_prefix(1);
  }

  std::string_view take(std::size_t count) {
    const std::string_view taken = text_.substr(0, count);
    text_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) fail(path_, "a string in its header has no end");
    const std::string_view found = take(end);
    expect('\'');
    return found;
  }

  std::string_view word() {
    at(' ');
    return take(std::min(text_.find_first_of(", }"), text_.size()));
  }

  void read_shape() {
    shaped_ = true;
    expect('(');
    while (!at(')')) {
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail(path_, "a dimension in its header is not a number");
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      shape.push_back(size);
      if (shape.size() > kMostDimensions) fail(path_, "its shape has more than 64 dimensions");
      if (!at(')')) expect(',');
    }
    expect(')');
  }

  const std::filesystem::path& path_;
  std::string_view text_;
  bool shaped_ = false;
};

DType dtype_of(const std::filesystem::path& path, std::string_view descr) {
  for (const Descr& each : kDescrs) {
    if (each.text == descr) return each.type;
  }
  fail(path, "elements of type '" + std::string(descr) + "' are not supported");
}

std::string read_header(const std::filesystem::path& path, std::ifstream* file) {
  std::array<unsigned char, 12> start{};
  file->read(reinterpret_cast<char*>(start.data()), 8);
  if (!*file || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) fail(path, "it does not start like one");
  const int version = start[6];
  if (version < 1 || version > 3) fail(path, "version " + std::to_string(version));
  const int width = version == 1 ? 2 : 4;
  file->read(reinterpret_cast<char*>(start.data()) + 8, width);
  std::uint32_t length = 0;
  for (int i = 0; i < width; ++i) length |= static_cast<std::uint32_t>(start[8 + i]) << (8 * i);
  if (!*file || length > (1U << 16)) fail(path, "its header has no end");
  std::string text(length, '\0');
  file->read(text.data(), length);
  if (!*file) fail(path, "its header has no end");
  return text;
}

}  // namespace

Array read_npy(const std::filesystem::path& path, const Accept& accept) {
  std::error_code problem;
  const std::uint64_t size = std::filesystem::file_size(path, problem);
  if (problem) throw Error(Error::Kind::kInput, path.string() + ": " + problem.message());
  std::ifstream file(path, std::ios::binary);  // a regular file, so opening does not block
  if (!file) throw Error(Error::Kind::kInput, path.string() + ": " + std::strerror(errno));
  const std::string text = read_header(path, &file);
  const Header header(path, text);
  Array array{dtype_of(path, header.descr), header.shape, {}};

  const auto start = static_cast<std::uint64_t>(file.tellg());
  const std::uint64_t have = size < start ? 0 : size - start;
  std::uint64_t bytes = dtype_size(array.dtype);
  for (const std::int64_t size : array.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) fail(path, "its shape is too big");
  }
  if (bytes != have) {
    fail(path, "its header promises " + std::to_string(bytes) + " bytes, it has " + std::to_string(have));
  }
  accept(array.dtype, array.shape);
  array.data.resize(bytes);
  file.read(array.data.data(), static_cast<std::streamsize>(bytes));
  if (!file) fail(path, "it cannot be read to its end");
  if (header.fortran && array.shape.size() > 1) {
    std::vector<std::uint8_t> order(array.shape.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint8_t>(order.size() - 1 - i);
    std::vector<char> rows(bytes);
    to_row_major(array.data.data(), rows.data(), array.shape, order, dtype_size(array.dtype));
    array.data = std::move(rows);
  }
  return array;
}

std::string npy(const Array& array) {
  const auto descr =
      std::find_if(kDescrs.begin(), kDescrs.end(), [&](const Descr& d) { return d.type == array.dtype; });
  std::string shape;
  for (const std::int64_t size : array.shape) shape += std::to_string(size) + (array.shape.size() == 1 ? "," : ", ");
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string header =
      "{'descr': '" + std::string(descr->text) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  const std::array<char, 4> start = {1, 0, static_cast<char>(header.size() & 0xff),
                                     static_cast<char>(header.size() >> 8)};
  std::string content(kMagic);
  content.append(start.data(), start.size()).append(header).append(array.data.data(), array.data.size());
  return content;
}

Array to_bfloat16(const Array& floats) {
  Array found{DType::kBfloat16, floats.shape, std::vector<char>(floats.data.size() / 2)};
  for (std::size_t i = 0; i < floats.data.size() / 4; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, floats.data.data() + 4 * i, 4);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const auto upper =
        static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    std::memcpy(found.data.data() + 2 * i, &upper, 2);
  }
  return found;
}

Array from_bfloat16(const Array& array) {
  Array found{DType::kFloat32, array.shape, std::vector<char>(array.data.size() * 2)};
  for (std::size_t i = 0; i < array.data.size() / 2; ++i) {
    std::uint16_t upper = 0;
    std::memcpy(&upper, array.data.data() + 2 * i, 2);
    const std::uint32_t bits = static_cast<std::uint32_t>(upper) << 16;
    std::memcpy(found.data.data() + 4 * i, &bits, 4);
  }
  return found;
}

}  // namespace modelbuild
