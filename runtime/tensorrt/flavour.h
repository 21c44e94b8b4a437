/* The interface between the TensorRT delegate and a flavour: TensorRT of a major version, or TensorRT-RTX. A flavour is
 * a library libmodelbuild_tensorrt_*.so beside the delegate that exports modelbuild_tensorrt_flavour(). flavours/ has
 * the sources; no header of NVIDIA's is needed. */
#ifndef MODELBUILD_TENSORRT_FLAVOUR_H_
#define MODELBUILD_TENSORRT_FLAVOUR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MB_TRT_ABI 3u
#define MB_TRT_MAX_DIMS 8

typedef struct {
  int32_t rank; /* -1: unknown */
  int64_t sizes[MB_TRT_MAX_DIMS];
} mb_trt_dims;

typedef enum { MB_TRT_MIN, MB_TRT_OPT, MB_TRT_MAX } mb_trt_bound;
typedef enum { MB_TRT_ERROR, MB_TRT_WARNING, MB_TRT_INFO } mb_trt_severity;

/* Receives messages, from any thread, until the engine that it was passed with is freed. */
typedef struct {
  void (*write)(void* user, mb_trt_severity severity, const char* message);
  void* user;
} mb_trt_log;

typedef struct mb_trt_engine mb_trt_engine;
typedef struct mb_trt_context mb_trt_context;

/* Unless stated otherwise, functions return 0 for failure and log a message. A GPU exists and the engine's GPU is
 * current in every call. */
typedef struct {
  uint32_t abi;
  uint32_t struct_size;
  const char* product;          /* "TensorRT" or "TensorRT-RTX" */
  int32_t major;                /* of the versions that it can call */
  const char* const* libraries; /* names of the files that it looks for, in this order; NULL at the end */
  /* Loads TensorRT's library, once, and returns its name and version: "TensorRT 10.16.1 (libnvinfer.so.10)". Returns
   * NULL if there is none, with a message of severity INFO, or if its version is unknown, with one of severity ERROR.
   */
  const char* (*load)(const mb_trt_log* log);
  /* Call these after load. `file` returns the name of the loaded file; `version` writes major, minor and patch. */
  const char* (*file)(void);
  void (*version)(int32_t* three);
  /* Returns NULL if this flavour can't read the bytes, which need not outlive the call. host_code: not 0 to let
   * TensorRT load code that is embedded in the engine. */
  mb_trt_engine* (*deserialize)(const void* data, size_t size, int host_code, const mb_trt_log* log);
  void (*engine_free)(mb_trt_engine*);
  const char* (*engine_name)(mb_trt_engine*); /* "" if it has none */
  int32_t (*bindings)(mb_trt_engine*);        /* their number */
  int (*has_binding)(mb_trt_engine*, const char* name, int is_input);
  int32_t (*dtype)(mb_trt_engine*, const char* name); /* mb_dtype; -1 for a type that ExecuTorch lacks */
  /* Returns why a binding cannot be row-major memory on the GPU, or "". */
  const char* (*obstacle)(mb_trt_engine*, const char* name);
  mb_trt_dims (*binding_shape)(mb_trt_engine*, const char* name); /* -1 for sizes that vary */
  int32_t (*profiles)(mb_trt_engine*);
  mb_trt_dims (*profile)(mb_trt_engine*, const char* name, int32_t index, mb_trt_bound bound);
  mb_trt_context* (*context)(mb_trt_engine*); /* NULL for failure */
  void (*context_free)(mb_trt_context*);
  int (*set_profile)(mb_trt_context*, int32_t index, void* cuda_stream); /* all shapes are unset then */
  int (*set_shape)(mb_trt_context*, const char* name, const mb_trt_dims* dims);
  int (*infer_shapes)(mb_trt_context*);
  mb_trt_dims (*shape)(mb_trt_context*, const char* name);
  int (*set_address)(mb_trt_context*, const char* name, void* address);
  int (*enqueue)(mb_trt_context*, void* cuda_stream);
} mb_trt_flavour;

const mb_trt_flavour* modelbuild_tensorrt_flavour(void);

#ifdef __cplusplus
}
#endif
#endif
