// A stand-in for libgcc_s.so.1 and libstdc++.so.6 to link against, with the functions that Zig's C++ library calls.
#define FUNCTION(name) \
  void name(void) {}
FUNCTION(_Unwind_DeleteException)
FUNCTION(_Unwind_GetIP)
FUNCTION(_Unwind_GetLanguageSpecificData)
FUNCTION(_Unwind_GetRegionStart)
FUNCTION(_Unwind_RaiseException)
FUNCTION(_Unwind_Resume)
FUNCTION(_Unwind_SetGR)
FUNCTION(_Unwind_SetIP)
