// Symbols of GCC 13 that the aarch64 shims need: runtime/older_symbols.py.
#if defined(__aarch64__)
#include <cxxabi.h>

#include <exception>

extern "C" {

// GCC 13 names it wherever <iostream> is included, and calls it nowhere. Before GCC 13 each such file initializes the
// streams itself.
void modelbuild_ios_base_library_init() __asm__("_ZSt21ios_base_library_initv");
void modelbuild_ios_base_library_init() {}

// Called for an exception that leaves a noexcept function.
[[noreturn]] void modelbuild_call_terminate(void* exception) noexcept __asm__("__cxa_call_terminate");
void modelbuild_call_terminate(void* exception) noexcept {
  if (exception != nullptr) abi::__cxa_begin_catch(exception);
  std::terminate();
}

}  // extern "C"
#endif
