// Compares the two ways of SHA-256 on every length of up to 300 bytes, and on a large one. sha256_check MEGABYTES:
// prints how fast they are.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "files/sha256.hpp"

namespace {

using Way = modelbuild::Sha256 (*)(std::span<const std::uint8_t>);

void measure(const char* name, Way way, const std::vector<std::uint8_t>& bytes) {
  const auto began = std::chrono::steady_clock::now();
  const modelbuild::Sha256 found = way(bytes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%s: %.0f MB/s (%02x...)\n", name, static_cast<double>(bytes.size()) / took.count() / 1e6, found[0]);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::uint8_t> bytes(count > 1 ? std::strtoul(arguments[1], nullptr, 10) * 1'000'000 : 1 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 2654435761U >> 13);
  if (count > 1) {
    measure("sha256", modelbuild::sha256, bytes);
    measure("without the CPU's instructions", modelbuild::portable_sha256, bytes);
    return 0;
  }
  const auto same = [&](std::size_t size) {
    const std::span data(bytes.data(), size);
    return modelbuild::sha256(data) == modelbuild::portable_sha256(data);
  };
  int lengths = 0;
  while (lengths < 300 && same(static_cast<std::size_t>(lengths))) ++lengths;
  std::printf("%d lengths\n", lengths);
  return same(bytes.size()) ? 0 : 1;
}
