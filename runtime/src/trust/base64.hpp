// Base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace modelbuild {

// Returns the decoded bytes, or nothing if the text is not base64 with its padding.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace modelbuild
