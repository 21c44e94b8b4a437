#include "api/one_line.hpp"

#include <cstdint>

namespace modelbuild {
namespace {

// Returns the bytes of the UTF-8 character at the start of a text that is not empty; 0 if there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Too long forms of smaller numbers, surrogates, and numbers above the last.
  const bool invalid = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                       (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return invalid ? 0 : length;
}

// Returns whether a character changes how a terminal shows others: controls, line separators, directions of text.
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  return character.size() == 3 && byte(0) == 0xe2 &&
         ((byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||
          (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9));
}

void escape(std::string_view bytes, std::string* out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char each : bytes) {
    const auto byte = static_cast<std::uint8_t>(each);
    if (each == '\n' || each == '\t' || each == '\r') {
      *out += each == '\n' ? "\\n" : each == '\t' ? "\\t" : "\\r";
    } else {
      *out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string found;
  found.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control(character)) {
      escape(character, &found);
    } else {
      found += character;
    }
    text.remove_prefix(character.size());
  }
  return found;
}

}  // namespace modelbuild
