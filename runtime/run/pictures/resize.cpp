// One pass for each direction, whose weights are integers. Equal bytes need doubles that are rounded after each
// operation: this file is compiled without fused operations.
#include "pictures/resize.hpp"

#include <algorithm>
#include <cmath>

namespace modelbuild {
namespace {

constexpr int kBits = 22;  // of a weight's fraction

// The input positions of one output position, and their weights.
struct Window {
  std::size_t first = 0;
  std::vector<std::int32_t> weights;
};

// Halves are rounded up, in Pillow as well.
double rounded(double number) { return std::floor(number + 0.5); }

Window window_at(std::size_t position, std::size_t size, std::size_t wanted) {
  const double scale = static_cast<double>(size) / static_cast<double>(wanted);
  const double reach = std::max(scale, 1.0);
  const double center = (static_cast<double>(position) + 0.5) * scale;
  const auto first = static_cast<std::size_t>(std::max(rounded(center - reach), 0.0));
  const std::size_t end = std::min(static_cast<std::size_t>(rounded(center + reach)), size);

  const double narrow = 1.0 / reach;
  std::vector<double> parts;
  double sum = 0;
  for (std::size_t i = first; i < end; ++i) {
    const double distance = std::abs((static_cast<double>(i) - center + 0.5) * narrow);
    parts.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
    sum += parts.back();
  }
  Window found{first, {}};
  for (const double part : parts) {
    const double share = sum != 0.0 ? part / sum : part;
    found.weights.push_back(static_cast<std::int32_t>(rounded(share * (1 << kBits))));
  }
  return found;
}

// Resizes one dimension of bytes [before, size, after].
std::vector<std::uint8_t> resized(const std::vector<std::uint8_t>& bytes, std::size_t size, std::size_t wanted,
                                  std::size_t after) {
  const std::size_t before = bytes.size() / (size * after);
  std::vector<std::uint8_t> found(before * wanted * after);
  for (std::size_t position = 0; position < wanted; ++position) {
    const Window window = window_at(position, size, wanted);
    for (std::size_t outer = 0; outer < before; ++outer) {
      const std::uint8_t* from = &bytes[(outer * size + window.first) * after];
      std::uint8_t* to = &found[(outer * wanted + position) * after];
      for (std::size_t inner = 0; inner < after; ++inner) {
        std::int32_t sum = 1 << (kBits - 1);
        for (std::size_t i = 0; i < window.weights.size(); ++i) sum += from[i * after + inner] * window.weights[i];
        to[inner] = static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
      }
    }
  }
  return found;
}

void multiply_by_alpha(std::vector<std::uint8_t>* rgba) {
  for (std::size_t at = 0; at < rgba->size(); at += 4) {
    std::uint8_t* pixel = &(*rgba)[at];
    for (int i = 0; i < 3; ++i) {
      const unsigned product = unsigned{pixel[i]} * pixel[3] + 128;
      pixel[i] = static_cast<std::uint8_t>((product + (product >> 8)) / 256);
    }
  }
}

void divide_by_alpha(std::vector<std::uint8_t>* rgba) {
  for (std::size_t at = 0; at < rgba->size(); at += 4) {
    std::uint8_t* pixel = &(*rgba)[at];
    if (pixel[3] == 0) continue;
    for (int i = 0; i < 3; ++i) pixel[i] = static_cast<std::uint8_t>(std::min(255U * pixel[i] / pixel[3], 255U));
  }
}

}  // namespace

Pixels resize(Pixels pixels, std::size_t width, std::size_t height) {
  if (width == pixels.width && height == pixels.height) return pixels;
  if (pixels.channels == 4) multiply_by_alpha(&pixels.bytes);
  Pixels found(0, 0, pixels.channels);
  found.width = width;
  found.height = height;
  found.bytes = std::move(pixels.bytes);
  if (width != pixels.width) found.bytes = resized(found.bytes, pixels.width, width, found.channels);
  if (height != pixels.height) found.bytes = resized(found.bytes, pixels.height, height, width * found.channels);
  if (found.channels == 4) divide_by_alpha(&found.bytes);
  return found;
}

}  // namespace modelbuild
