// A sink for the log that throws, for c_api_check.c.
#include "modelbuild/runtime.h"

extern "C" void throw_from_sink(mb_log_level, const char*, size_t, void*) { throw 42; }
