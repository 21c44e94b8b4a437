/* The interface between the TensorRT delegate and a flavour of TensorRT (TensorRT, its lean runtime, TensorRT-RTX) of
 * some major version. The delegate needs no header of TensorRT. A flavour is a library libmodelbuild_tensorrt_*.so
 * beside the delegate, compiled from flavour_nvinfer.cpp with the flavour's headers. It exports
 * modelbuild_tensorrt_flavour(). */
#ifndef MODELBUILD_TENSORRT_FLAVOUR_H_
#define MODELBUILD_TENSORRT_FLAVOUR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MB_TRT_ABI 1u
#define MB_TRT_MAX_DIMS 8

typedef struct {
  int32_t rank; /* -1: unknown */
  int64_t sizes[MB_TRT_MAX_DIMS];
} mb_trt_dims;

typedef enum { MB_TRT_MIN, MB_TRT_OPT, MB_TRT_MAX } mb_trt_bound;
typedef enum { MB_TRT_ERROR, MB_TRT_WARNING, MB_TRT_INFO } mb_trt_severity;
typedef void (*mb_trt_log)(mb_trt_severity severity, const char* message);

typedef struct mb_trt_engine mb_trt_engine;
typedef struct mb_trt_context mb_trt_context;

/* Unless stated otherwise, functions return 0 for failure and log a message. The engine's GPU must be current in every
 * call. */
typedef struct {
  uint32_t abi;
  uint32_t struct_size;
  const char* (*name)(void); /* "tensorrt_rtx 1.6 (libtensorrt_rtx.so.1)" */
  /* NULL if this flavour can't read the bytes, which need not outlive the call. */
  mb_trt_engine* (*deserialize)(const void* data, size_t size, mb_trt_log log);
  void (*engine_free)(mb_trt_engine*);
  const char* (*engine_name)(mb_trt_engine*); /* "" if it has none */
  int (*has_binding)(mb_trt_engine*, const char* name, int is_input);
  int32_t (*dtype)(mb_trt_engine*, const char* name); /* mb_dtype; -1 for a type that ExecuTorch lacks */
  mb_trt_dims (*profile)(mb_trt_engine*, const char* name, mb_trt_bound bound);
  mb_trt_context* (*context)(mb_trt_engine*); /* NULL for failure */
  void (*context_free)(mb_trt_context*);
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
