// Makes text that a file or a user decides safe to print.
#pragma once

#include <string>
#include <string_view>

namespace modelbuild {

// Returns the text with control characters, line separators and bytes that are not UTF-8 escaped, as `a\nb` and
// `\x1b[0m`. Unescaped, these would move a terminal's cursor, or look like lines of the program's own.
std::string one_line(std::string_view text);

}  // namespace modelbuild
