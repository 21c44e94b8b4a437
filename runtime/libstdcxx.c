// Functions that libstdc++ needs of a newer glibc, and symbols that others need of it and its static library lacks.
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

// glibc 2.36; std::random_device calls it.
uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof value) != 0) {
    abort();
  }
  return value;
}

// std::condition_variable::wait as callers compiled before GCC 12 name it.
void _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void* self, void* lock);
EXPORTED void condition_variable_wait(void* self, void* lock) {
  _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(self, lock);
}
__asm__(".symver condition_variable_wait,_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
