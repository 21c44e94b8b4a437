// Symbols of GCC 13 that the aarch64 shims need: runtime/older_symbols.py. A library of its own, since C++ libraries
// have functions of these names that others must not see.

// GCC 13 names it wherever <iostream> is included, and calls it nowhere. Before GCC 13 each such file initializes the
// streams itself.
void _ZSt21ios_base_library_initv(void);
void _ZSt21ios_base_library_initv(void) {}

void* __cxa_begin_catch(void* exception);
_Noreturn void _ZSt9terminatev(void);

// Called for an exception that leaves a noexcept function.
_Noreturn void __cxa_call_terminate(void* exception);
_Noreturn void __cxa_call_terminate(void* exception) {
  if (exception != 0) __cxa_begin_catch(exception);
  _ZSt9terminatev();
}
