// Damages files: a few edits each, as disks, networks and editors make them, and such that lengths and offsets lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

inline Bytes read_bytes(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Overwrites up to 8 bytes with a little-endian number.
inline void put(Bytes* bytes, std::size_t at, std::uint64_t number, std::size_t width) {
  std::memcpy(bytes->data() + at, &number, std::min(width, bytes->size() - at));
}

inline void edit(Bytes* bytes, Random* random) {
  constexpr std::array<std::uint64_t, 12> kEdges = {0,      1,          0x7f,       0x80,       0xff,           0x7fff,
                                                    0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 32 | 1, ~0ULL};
  constexpr std::size_t kHead = 4096;  // most of what is read as numbers is near the start
  Random& next = *random;
  if (bytes->empty()) return;
  const std::size_t at = next() % (next() % 2 != 0 ? std::min(bytes->size(), kHead) : bytes->size());
  const std::size_t word = at & ~std::size_t{3};
  const auto begin = bytes->begin();
  const auto here = begin + static_cast<std::ptrdiff_t>(at);
  switch (next() % 10) {
    case 0:
      (*bytes)[at] = static_cast<std::uint8_t>(next());
      return;
    case 1:
      (*bytes)[at] ^= static_cast<std::uint8_t>(1U << (next() % 8));
      return;
    case 2:
      return put(bytes, word, kEdges[next() % kEdges.size()], std::size_t{1} << (next() % 4));
    case 3: {  // one number for another, a little away
      std::uint32_t number = 0;
      std::memcpy(&number, bytes->data() + word, std::min<std::size_t>(4, bytes->size() - word));
      return put(bytes, word, number + static_cast<std::uint32_t>(next() % 33) - 16, 4);
    }
    case 4:
      return bytes->resize(at);
    case 5:  // as a copy that was interrupted leaves it
      std::fill(here, bytes->end(), 0);
      return;
    case 6:
      bytes->insert(here, static_cast<std::uint8_t>(next()));
      return;
    case 7:
      bytes->erase(here);
      return;
    case 8: {  // a block from elsewhere
      const std::size_t from = next() % bytes->size();
      const std::size_t count = std::min({next() % 64, bytes->size() - at, bytes->size() - from});
      std::memmove(bytes->data() + at, bytes->data() + from, count);
      return;
    }
    default:
      std::swap((*bytes)[at], (*bytes)[next() % bytes->size()]);
  }
}

// Changes a small number, which a format's table or list has for an index, a size, a kind or an offset, to another.
inline void edit_number(Bytes* bytes, Random* random) {
  constexpr std::uint32_t kSmall = 256;
  Random& next = *random;
  const std::size_t width = next() % 4 != 0 ? 4 : 1;
  const auto small = [&](std::uint32_t* number) {
    const std::size_t at = next() % (bytes->size() - width + 1) / width * width;
    *number = 0;
    std::memcpy(number, bytes->data() + at, width);
    return *number < kSmall ? at : bytes->size();
  };
  if (bytes->size() < 4) return edit(bytes, random);
  for (int tries = 0; tries < 64; ++tries) {
    std::uint32_t old = 0;
    const std::size_t at = small(&old);
    if (at == bytes->size() || (old == 0 && next() % 4 != 0)) continue;  // most zeros are padding
    std::uint32_t number = 0;
    switch (next() % 4) {
      case 0:
        number = old + static_cast<std::uint32_t>(next() % 9) - 4;
        break;
      case 1:
        number = static_cast<std::uint32_t>(next() % 16);
        break;
      case 2:
        number = 0U - static_cast<std::uint32_t>(next() % 4);
        break;
      default:
        small(&number);
    }
    return put(bytes, at, number, width);
  }
}

// A damaged copy, which is another file than the whole one.
inline Bytes damaged(const Bytes& whole, Random* random) {
  Bytes bytes;
  const bool numbers = (*random)() % 2 == 0;
  do {
    bytes = whole;
    for (std::uint64_t edits = 1 + (*random)() % 4; edits != 0; --edits) (numbers ? edit_number : edit)(&bytes, random);
  } while (bytes == whole);
  bytes.shrink_to_fit();
  return bytes;
}
