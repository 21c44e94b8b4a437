#include <algorithm>

#include "api/runtime.hpp"

namespace modelbuild {
namespace {

std::string one_line(std::string text) {
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), control, '?');
  return text;
}

}  // namespace

Error::Error(Kind kind, const std::string& message) : std::runtime_error(one_line(message)), kind_(kind) {}
Error::~Error() = default;

}  // namespace modelbuild
