/* A CUDA driver without a GPU, as far as AOTInductor's libraries use one: launches are handed to a callback. */
#include <stdio.h>
#include <string.h>

typedef void (*launch_fn)(const char *name, unsigned x, unsigned y, unsigned z, unsigned threads, void **arguments);
static launch_fn on_launch;

void emu_on_launch(launch_fn f) { on_launch = f; }

int cuModuleLoadData(void **module, const void *image) {
  unsigned magic = *(const unsigned *)image;
  if (magic != 0xBA55ED50u && magic != 0x464C457Fu) { /* a fat binary, or ELF */
    fprintf(stderr, "emulator: no image of a kernel (%08x)\n", magic);
    return 200;
  }
  *module = (void *)image;
  return 0;
}
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = strdup(name); return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
int cuGetErrorString(int error, const char **text) { *text = "an error of the emulator"; return 0; }
int cuGetErrorName(int error, const char **text) { *text = "EMULATOR"; return 0; }
int cuInit(unsigned flags) { return 0; }

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  if (threads % 32 || ty != 1 || tz != 1 || !on_launch) return 1;
  on_launch((const char *)function, x, y, z, threads, arguments);
  return 0;
}
