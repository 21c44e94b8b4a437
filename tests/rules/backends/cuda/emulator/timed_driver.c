/* A CUDA driver without a GPU that only times: a kernel takes a microsecond for each of its blocks, and one for each
 * 64 bytes of its shared memory. FAKE_DEVICES, FAKE_CAPABILITY ("90") and FAKE_FAILS (the name of a call) say what is here;
 *  FAKE_CRASH is the name of a kernel
 * that ends the process; FAKE_LOG is a file that gets a line for each launch. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

static float took;
static unsigned long long allocated, freed;
static address buffers[64];
static char *fails;

static int number(const char *name, int usual) {
  const char *text = getenv(name);
  return text ? atoi(text) : usual;
}
static int result(const char *name) {
  if (!fails) fails = getenv("FAKE_FAILS") ? getenv("FAKE_FAILS") : "";
  return strcmp(fails, name) ? 0 : 701;
}

int cuInit(unsigned flags) { return result("cuInit"); }
int cuDeviceGetCount(int *count) { *count = number("FAKE_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Fake GPU %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  int capability = number("FAKE_CAPABILITY", 90);
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 1 << 20;
  return 0;
}
int cuDriverGetVersion(int *version) { *version = 13010; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &took; return 0; }
int cuCtxSetCurrent(void *context) { return context != &took; }
/* The place of a buffer; of none, with 0, the first that is free. */
static int place(address pointer) {
  for (int i = 0; i < 64; i++) {
    if (buffers[i] == pointer) return i;
  }
  return -1;
}
int cuMemAlloc_v2(address *pointer, size_t size) {
  int free_place = place(0);
  if (free_place < 0) return 2;
  *pointer = buffers[free_place] = (address)calloc(1, size);
  allocated++;
  return 0;
}
int cuMemFree_v2(address pointer) {
  buffers[place(pointer)] = 0;
  free((void *)pointer);
  freed++;
  return 0;
}
int cuMemsetD8_v2(address pointer, unsigned char value, size_t size) { memset((void *)pointer, value, size); return 0; }
int cuMemsetD8Async(address pointer, unsigned char value, size_t size, void *stream) { return 0; }
int cuModuleLoadData(void **module, const void *image) {
  *module = (void *)image;
  return memcmp(image, "\177ELF", 4) ? 200 : 0;
}
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = strdup(name); return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return attribute != 8; }
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  took = (x * y * z + shared / 64) * 1e-3f;
  if (getenv("FAKE_CRASH") && !strcmp(getenv("FAKE_CRASH"), function)) abort();
  if (getenv("FAKE_LOG")) {
    FILE *log = fopen(getenv("FAKE_LOG"), "a");
    fprintf(log, "%s %u %u %u %u %u", (char *)function, x, y, z, threads, shared);
    for (int i = 0; i < number("FAKE_ARGUMENTS", 0); i++) {
      address value = *(address *)arguments[i]; /* a buffer's first byte, or a number of 32 bits */
      if (value && place(value) >= 0) fprintf(log, " *%02x", *(unsigned char *)value);
      else fprintf(log, " %u", (unsigned)value);
    }
    fprintf(log, "\n");
    fclose(log);
  }
  return result("cuLaunchKernel");
}
int cuEventCreate(void **event, unsigned flags) { *event = &took; return 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventSynchronize(void *event) { return 0; }
int cuEventElapsedTime(float *milliseconds, void *start, void *end) { *milliseconds = took; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "a failure that was asked for"; return 0; }
/* By the name without a version, the latest: cuMemAlloc is cuMemAlloc_v2. */
int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *status) {
  char latest[128];
  snprintf(latest, sizeof latest, "%s_v2", name);
  *found = dlsym(RTLD_DEFAULT, latest);
  if (!*found) *found = dlsym(RTLD_DEFAULT, name);
  return 0;
}
