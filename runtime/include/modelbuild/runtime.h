/* C API of the runtime for .pte files. docs/reference/runtime.md explains its use; examples/run.c is an example.
 *
 * Functions that can fail return mb_status; mb_last_error() then returns a one-line message, on the same thread. No
 * function throws. A NULL for a required argument, or in an array, is MB_ERROR_INPUT; the function's results are then
 * zero. Functions without a status accept NULL: they return NULL or 0, or do nothing.
 */
#ifndef MODELBUILD_RUNTIME_H_
#define MODELBUILD_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

/* Marks the functions that the library exports; runtime/abi.txt lists them. */
#define MB_API __attribute__((visibility("default")))

/* The version of this header. It grows by one with each addition of a function, a field or a value. A program that was
 * compiled with it needs a library whose mb_api_version() is at least as large. */
#define MB_API_VERSION 4

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  MB_OK = 0,
  MB_ERROR_PROGRAM = 1, /* the program can't be loaded, or failed */
  MB_ERROR_INPUT = 2    /* an argument does not match the program */
} mb_status;

/* Element types, by their numbers in a .pte. */
typedef enum {
  MB_UINT8 = 0,
  MB_INT8 = 1,
  MB_INT16 = 2,
  MB_INT32 = 3,
  MB_INT64 = 4,
  MB_FLOAT16 = 5,
  MB_FLOAT32 = 6,
  MB_FLOAT64 = 7,
  MB_BOOL = 11,
  MB_BFLOAT16 = 15,
  MB_UINT16 = 27,
  MB_UINT32 = 28,
  MB_UINT64 = 29
} mb_dtype;

#define MB_HOST (-1)

/* Elements in row-major order. */
typedef struct {
  void* data;
  const int64_t* shape;
  int32_t rank;
  int32_t dtype;  /* mb_dtype */
  int32_t device; /* MB_HOST, or the index of a GPU */
} mb_tensor;

/* Zeros are the defaults; NULL for the struct means all defaults. struct_size must be sizeof of the struct that the
 * caller was compiled with. */
typedef struct {
  size_t struct_size;
  const char* const* data; /* .ptd files; by default the one beside the program */
  size_t data_count;
  const char* const* plugins; /* libraries to load in addition to those that the program's backends need */
  size_t plugin_count;
  const char* const* plugin_dirs; /* folders to search for those first */
  size_t plugin_dir_count;
  int32_t skip_verify; /* not 0: do not check the SHA-256 in files' manifests */
  int32_t profile;     /* not 0: record the time of each instruction, for mb_take_profile; since version 2 */
  /* Public keys on the curve P-256 (PEM). If there are any, only files that one of these signed are loaded: see
   * runtime.hpp; since version 3 */
  const char* const* keys;
  size_t key_count;
  /* The threads of this process that compute on the CPU, which all its programs share: set by the first load. 0: as
   * they are, and at first one per core; since version 4 */
  int32_t threads;
} mb_load_options;

typedef struct {
  size_t struct_size;
  int32_t use_stream; /* not 0: enqueue on `stream`, a cudaStream_t, and do not wait for it */
  void* stream;
  const mb_tensor* outputs; /* memory for outputs, by index; data NULL: the program's choice */
  size_t output_count;
  int32_t cuda_graph; /* not 0: record runs on the same addresses and shapes as CUDA graphs; see runtime.hpp */
} mb_run_options;

/* Bytes moved between host and device in a run: by delegates whose inputs or outputs were on the other side (staged),
 * and by the program's own copy instructions (copied). */
typedef struct {
  uint64_t staged_in, staged_out, copied_in, copied_out;
} mb_transfers;

/* Number of runs with cuda_graph since the program was loaded: recorded as a graph, and replayed by launching one. */
typedef struct {
  uint64_t recorded, replayed;
} mb_graph_counts;

typedef struct mb_program mb_program;

typedef enum { MB_LOG_DEBUG, MB_LOG_INFO, MB_LOG_ERROR, MB_LOG_FATAL, MB_LOG_OFF } mb_log_level;
typedef void (*mb_log_sink)(mb_log_level level, const char* message, size_t length, void* user);

/* Returns the library's version of modelbuild, as "0.1.0". */
MB_API const char* mb_version(void);

/* Returns the MB_API_VERSION that the library was built with. */
MB_API int32_t mb_api_version(void);

MB_API const char* mb_last_error(void);
/* least: an mb_log_level. sink NULL: stderr. The sink may be called from any thread, one call at a time; it must not
   call this function. */
MB_API mb_status mb_set_log(int32_t least, mb_log_sink sink, void* user);

/* Describes a program as one JSON object, without loading it. Free the text with mb_free. */
MB_API mb_status mb_describe(const char* path, char** json);
/* Writes the requirements of a program that this machine does not meet, each with a line break after it; "" if it meets
 * all. No part of the program is loaded. Free the text with mb_free. */
MB_API mb_status mb_check(const char* path, const mb_load_options* options, char** lines);
MB_API void mb_free(void* pointer);

/* path: a .pte, the folder of a bundle, or FOLDER/NAME for a program of a bundle with several. */
MB_API mb_status mb_load(const char* path, const mb_load_options* options, mb_program** program);
MB_API void mb_unload(mb_program* program);
MB_API const char* mb_program_json(const mb_program* program);

/* Runs a method on its tensor inputs, in order; "" is the only method, or `forward`. A program has one run at a time;
 * other callers wait. Threads that share a program must take turns from the run to the last use of its outputs. */
MB_API mb_status mb_run(mb_program* program, const char* method, const mb_tensor* inputs, size_t input_count,
                        const mb_run_options* options);
/* The outputs of the last run; none if it failed. Their memory is valid until the program runs again or is unloaded. */
MB_API size_t mb_output_count(const mb_program* program);
MB_API const char* mb_output_name(const mb_program* program, size_t index);
MB_API mb_status mb_output(const mb_program* program, size_t index, mb_tensor* tensor); /* numbers have rank 0 */
MB_API mb_status mb_last_transfers(const mb_program* program, mb_transfers* transfers);
MB_API mb_status mb_count_graphs(const mb_program* program, mb_graph_counts* counts);

/* Returns the times of all instructions since the last call, as one JSON object: `version` (1), and `runs`, a list of
 * each run's events. An event has `name` (OPERATOR_CALL for an instruction that calls a kernel, DELEGATE_CALL for one
 * that calls a delegate; within them names of kernels and of a delegate's own events), `chain` and `instruction` in the
 * program, `delegate` (true for a delegate's own event, with its `index`), `start_ns` and `end_ns` of a clock. Free the
 * text with mb_free. Needs the load option `profile`. Since version 2. */
MB_API mb_status mb_take_profile(mb_program* program, char** json);

/* GPU memory, for callers that do not use CUDA themselves. */
MB_API mb_status mb_device_allocate(int32_t device, size_t bytes, void** pointer);
MB_API void mb_device_free(int32_t device, void* pointer);
MB_API mb_status mb_copy(void* to, const void* from, size_t bytes, int32_t device); /* either side may be host memory */

#ifdef __cplusplus
}
#endif
#endif
