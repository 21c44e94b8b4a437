/* A CUDA runtime without a GPU: device memory is host memory that knows its bounds. New memory holds no zeros. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GUARD bytes around each block belong to no block, so that an access beyond it does not hit another one. */
enum { BLOCKS = 4096, GUARD = 65536 };
static struct { char *start; size_t size; } blocks[BLOCKS];

static void *take(size_t size) {
  void *whole = NULL;
  if (posix_memalign(&whole, 256, size + 2 * GUARD)) return NULL;
  memset(whole, 0xAB, size + 2 * GUARD);
  char *start = (char *)whole + GUARD;
  for (int i = 0; i < BLOCKS; i++)
    if (!blocks[i].start) { blocks[i].start = start; blocks[i].size = size; return start; }
  abort();
}
static int give(void *start) {
  if (!start) return 0;
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].start == start) { blocks[i].start = NULL; free((char *)start - GUARD); return 0; }
  fprintf(stderr, "emulator: freed what was not allocated\n");
  return 1;
}
/* Bytes from an address to the end of its block; 0 for an address that is not on the device. */
size_t emu_remaining(const void *address) {
  const char *p = address;
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].start && p >= blocks[i].start && p <= blocks[i].start + blocks[i].size)
      return blocks[i].start + blocks[i].size - p;
  return 0;
}
/* Write the start and end of each block, and return how many there are. */
int emu_allocations(uint64_t (*found)[2]) {
  int n = 0;
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].start) {
      found[n][0] = (uint64_t)blocks[i].start;
      found[n++][1] = (uint64_t)(blocks[i].start + blocks[i].size);
    }
  return n;
}
size_t emu_blocks(void) {
  size_t n = 0;
  for (int i = 0; i < BLOCKS; i++) n += blocks[i].start != NULL;
  return n;
}

int cudaMalloc(void **p, size_t n) { *p = take(n); return *p ? 0 : 2; }
int cudaMallocAsync(void **p, size_t n, void *stream) { return cudaMalloc(p, n); }
int cudaFree(void *p) { return give(p); }
int cudaFreeAsync(void *p, void *stream) { return give(p); }
/* Pools keep nothing here. */
int cudaDeviceGetDefaultMemPool(void **pool, int device) { *pool = blocks; return device ? 101 : 0; }
int cudaMemPoolSetAttribute(void *pool, int attribute, void *value) { return pool != blocks; }
int cudaMemPoolTrimTo(void *pool, size_t least) { return pool != blocks; }
int cudaMemcpy(void *to, const void *from, size_t n, int kind) { memmove(to, from, n); return 0; }
int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) { memmove(to, from, n); return 0; }
int cudaMemsetAsync(void *to, int value, size_t n, void *stream) { memset(to, value, n); return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaSetDevice(int device) { return device ? 101 : 0; }
int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaDriverGetVersion(int *version) { *version = 13000; return 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { *value = 1; return 0; }
const char *cudaGetErrorString(int error) { return error ? "an error of the emulator" : "no error"; }
const char *cudaGetErrorName(int error) { return "EMULATOR"; }
int cudaGetLastError(void) { return 0; }
int cudaPeekAtLastError(void) { return 0; }
int cudaStreamCreate(void **stream) { *stream = (void *)0x51; return 0; }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { return cudaStreamCreate(stream); }
int cudaStreamDestroy(void *stream) { return 0; }
int cudaStreamSynchronize(void *stream) { return 0; }
int cudaStreamGetDevice(void *stream, int *device) { *device = 0; return 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaEventCreate(void **event) { *event = (void *)0xE1; return 0; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { return cudaEventCreate(event); }
int cudaEventDestroy(void *event) { return 0; }
int cudaEventQuery(void *event) { return 0; }
int cudaEventRecord(void *event, void *stream) { return 0; }
int cudaEventSynchronize(void *event) { return 0; }
struct attributes { int type, device; void *on_device, *on_host; long reserved[8]; };
int cudaPointerGetAttributes(struct attributes *a, const void *p) {
  memset(a, 0, sizeof *a);
  a->type = emu_remaining(p) ? 2 : 0;
  a->on_device = (void *)p;
  return 0;
}

/* Kernels in the shims themselves (random numbers) cannot be run: they fail. driver.c has the one for sorts. */
#define FAILS(name) int name(void) { fprintf(stderr, "emulator: no " #name "\n"); return 999; }
FAILS(__cudaGetKernel) FAILS(__cudaLaunchKernel) FAILS(__cudaPopCallConfiguration) FAILS(__cudaPushCallConfiguration)
FAILS(cudaFuncGetAttributes) FAILS(cudaLaunchKernelExC) FAILS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
FAILS(cudaGraphDestroy) FAILS(cudaGraphExecDestroy) FAILS(cudaGraphInstantiate) FAILS(cudaGraphLaunch)
FAILS(cudaStreamBeginCapture) FAILS(cudaStreamEndCapture)
static void *registered[8];
void **__cudaRegisterFatBinary(void *image) { return registered; }
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaRegisterFunction(void) {}
void __cudaRegisterVar(void) {}
void __cudaUnregisterFatBinary(void **handle) {}
