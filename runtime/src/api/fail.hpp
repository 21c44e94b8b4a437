// Throws the library's errors.
#pragma once

#include <new>

#include "api/runtime.hpp"

namespace modelbuild {

[[noreturn]] inline void fail_program(const std::string& message) { throw Error(Error::Kind::kProgram, message); }
[[noreturn]] inline void fail_input(const std::string& message) { throw Error(Error::Kind::kInput, message); }

// Calls a function, and throws Error instead of exceptions of the standard library. Other libraries that call this
// library do not know the types of these exceptions.
template <typename Do>
auto with_errors(Do act) {
  try {
    return act();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail_program("out of memory");
  } catch (const std::exception& error) {
    fail_program(error.what());
  }
}

}  // namespace modelbuild
