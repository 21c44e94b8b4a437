// Throws the library's errors.
#pragma once

#include "modelbuild/runtime.hpp"

namespace modelbuild {

[[noreturn]] inline void fail_program(const std::string& message) { throw Error(Error::Kind::kProgram, message); }
[[noreturn]] inline void fail_input(const std::string& message) { throw Error(Error::Kind::kInput, message); }

}  // namespace modelbuild
