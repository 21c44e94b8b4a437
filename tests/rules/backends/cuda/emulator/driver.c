/* A CUDA driver without a GPU, as far as AOTInductor's libraries use one: launches are handed to a callback. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*launch_fn)(const char *name, unsigned x, unsigned y, unsigned z, unsigned threads, void **arguments);
static launch_fn on_launch;

void emu_on_launch(launch_fn f) { on_launch = f; }

/* ExecuTorch's kernel for sorts is CUDA code: a callback sorts. */
typedef int (*sort_fn)(void *given, int stable, int64_t dim, int descending, void **values, void **places);
static sort_fn on_sort;

void emu_on_sort(sort_fn f) { on_sort = f; }
int aoti_torch_cuda_sort_stable(void *given, int32_t *stable, int64_t dim, int32_t descending, void **values,
                                void **places) {
  return on_sort ? on_sort(given, stable && *stable, dim, descending, values, places) : 1;
}

int cuModuleLoadData(void **module, const void *image) {
  unsigned magic = *(const unsigned *)image;
  if (magic != 0xBA55ED50u) { /* a fat binary */
    fprintf(stderr, "emulator: no image of a kernel (%08x)\n", magic);
    return 200;
  }
  *module = (void *)image;
  return 0;
}
int cuModuleUnload(void *module) { return 0; }
/* Several images may have a function of the same name: a function is "NAME CHECKSUM", of its fat binary (Adler-32). */
int cuModuleGetFunction(void **function, void *module, const char *name) {
  const unsigned char *image = module;
  uint64_t size = *(const uint16_t *)(image + 6) + *(const uint64_t *)(image + 8);
  uint32_t a = 1, b = 0;
  for (uint64_t i = 0; i < size; i++) { a = (a + image[i]) % 65521; b = (b + a) % 65521; }
  char *text = malloc(strlen(name) + 16);
  sprintf(text, "%s %08x", name, (unsigned)(b << 16 | a));
  *function = text;
  return 0;
}
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
