/* What runs a .pte, for other languages than C++. docs/runtime.md tells how it is used; examples/run.c uses it.
 *
 * Functions that can fail return mb_status; mb_last_error() then says in one line what went wrong, on the same thread.
 * Nothing is thrown. A NULL where something is needed, or in an array, is MB_ERROR_INPUT; what a function was to fill
 * in is then zero. Functions that return no status take a NULL for nothing: they return NULL or 0, or do nothing.
 */
#ifndef MODELBUILD_RUNTIME_H_
#define MODELBUILD_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  MB_OK = 0,
  MB_ERROR_PROGRAM = 1, /* the program cannot be loaded or failed */
  MB_ERROR_INPUT = 2    /* what was given does not fit the program */
} mb_status;

/* Element types, by the numbers that a .pte has for them. */
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
  int32_t device; /* MB_HOST, or the number of a GPU */
} mb_tensor;

/* Zeroes are the defaults, and so is NULL for the struct. struct_size is sizeof of the struct that the caller was
 * compiled with; it has to be set. */
typedef struct {
  size_t struct_size;
  const char* const* data; /* .ptd files; by default the one beside the program */
  size_t data_count;
  const char* const* plugins; /* libraries to load besides those that the program's backends need */
  size_t plugin_count;
  const char* const* plugin_dirs; /* where to look for those first */
  size_t plugin_dir_count;
  int32_t skip_verify; /* not 0: do not check the SHA-256 of files that have a manifest */
} mb_load_options;

typedef struct {
  size_t struct_size;
  int32_t use_stream; /* not 0: enqueue on `stream`, a cudaStream_t, and do not wait for it */
  void* stream;
  const mb_tensor* outputs; /* where outputs are to be written, by index; data NULL: the program's choice */
  size_t output_count;
  int32_t cuda_graph; /* not 0: keep runs on the same addresses and shapes as CUDA graphs; see runtime.hpp */
} mb_run_options;

/* Bytes moved between host and device in a run: by delegates, because of where their inputs and outputs lay (staged),
 * and by copies that the program asks for (copied). */
typedef struct {
  uint64_t staged_in, staged_out, copied_in, copied_out;
} mb_transfers;

/* Runs with cuda_graph, since the program was loaded: recorded as a graph, and done by launching one. */
typedef struct {
  uint64_t recorded, replayed;
} mb_graph_counts;

typedef struct mb_program mb_program;

typedef enum { MB_LOG_DEBUG, MB_LOG_INFO, MB_LOG_ERROR, MB_LOG_FATAL, MB_LOG_OFF } mb_log_level;
typedef void (*mb_log_sink)(mb_log_level level, const char* message, size_t length, void* user);

/* The version of modelbuild that the library is of, as "0.1.0". */
const char* mb_version(void);

const char* mb_last_error(void);
/* least: an mb_log_level. sink NULL: stderr. The sink may be called from any thread, one call at a time; it must not
   call this function. */
mb_status mb_set_log(int32_t least, mb_log_sink sink, void* user);

/* What a program is, as one JSON object; loads nothing. The text is freed with mb_free. */
mb_status mb_describe(const char* path, char** json);
void mb_free(void* pointer);

mb_status mb_load(const char* path, const mb_load_options* options, mb_program** program);
void mb_unload(mb_program* program);
const char* mb_program_json(const mb_program* program);

/* Run a method on its tensor inputs, in order. A program runs once at a time: further callers wait. Threads that share
 * one have to take turns from here to the last use of its outputs. */
mb_status mb_run(mb_program* program, const char* method, const mb_tensor* inputs, size_t input_count,
                 const mb_run_options* options);
/* The outputs of the last run, none if it failed. What they point to holds until the program runs again or is
 * unloaded. */
size_t mb_output_count(const mb_program* program);
const char* mb_output_name(const mb_program* program, size_t index);
mb_status mb_output(const mb_program* program, size_t index, mb_tensor* tensor); /* numbers come as rank 0 */
mb_status mb_last_transfers(const mb_program* program, mb_transfers* transfers);
mb_status mb_count_graphs(const mb_program* program, mb_graph_counts* counts);

/* Memory of a GPU, for callers without CUDA of their own. */
mb_status mb_device_allocate(int32_t device, size_t bytes, void** pointer);
void mb_device_free(int32_t device, void* pointer);
mb_status mb_copy(void* to, const void* from, size_t bytes, int32_t device); /* either side may be host memory */

#ifdef __cplusplus
}
#endif
#endif
