// Compares the two ways of SHA-256 on every length of up to 300 bytes, and on a large one.
#include <cstdio>
#include <vector>

#include "sha256.hpp"

int main() {
  std::vector<std::uint8_t> bytes(1 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 2654435761U >> 13);
  const auto same = [&](std::size_t size) {
    const std::span data(bytes.data(), size);
    return modelbuild::sha256(data) == modelbuild::portable_sha256(data);
  };
  int lengths = 0;
  while (lengths < 300 && same(static_cast<std::size_t>(lengths))) ++lengths;
  std::printf("%d lengths\n", lengths);
  return same(bytes.size()) ? 0 : 1;
}
