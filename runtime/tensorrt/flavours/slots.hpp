// The virtual tables of TensorRT, from the order of methods in its public headers. TensorRT appends methods within a
// major version, so a slot holds for all versions of a row. docs/reference/gpu-runtime.md explains new versions.
#pragma once

#include <array>
#include <cstdint>

namespace modelbuild::tensorrt {

// Positions of methods in declaration order, destructors not counted.
struct RuntimeSlots {
  int deserialize;
  int host_code;  // setEngineHostCodeAllowed; kNone without embedded code
};
constexpr int kNone = -1;
struct EngineSlots {
  int context, name, shape, dtype, location, is_shape, io_mode, format, profiles, profile_shape, bindings;
};
struct ContextSlots {
  int set_profile, set_shape, shape, set_address, infer_shapes, enqueue;
};

struct Family {
  const char* product;
  std::array<const char*, 4> libraries;  // the one with most features first; nullptr at the end
  std::int32_t oldest, newest;           // versions with these tables, as getInferLibVersion returns them
  int scale;                             // of the major version in that number
  int major;                             // whose signatures the methods have
  RuntimeSlots runtime;
  EngineSlots engine;
  ContextSlots context;
};

constexpr Family kTensorRt8{
    "TensorRT",
    {"libnvinfer.so.8", "libnvinfer_lean.so.8", "libnvinfer_dispatch.so.8"},
    8503,
    8699,
    1000,
    8,
    {.deserialize = 0, .host_code = 18},
    {.context = 9,
     .name = 19,
     .shape = 32,
     .dtype = 33,
     .location = 34,
     .is_shape = 35,
     .io_mode = 36,
     .format = 39,
     .profiles = 20,
     .profile_shape = 42,
     .bindings = 43},
    {.set_profile = 23, .set_shape = 27, .shape = 28, .set_address = 30, .infer_shapes = 33, .enqueue = 42}};

constexpr Family kTensorRt10{
    "TensorRT",
    {"libnvinfer.so.10", "libnvinfer_lean.so.10", "libnvinfer_dispatch.so.10"},
    100000,
    101699,
    10000,
    10,
    {.deserialize = 1, .host_code = 19},
    {.context = 3,
     .name = 7,
     .shape = 17,
     .dtype = 18,
     .location = 19,
     .is_shape = 20,
     .io_mode = 21,
     .format = 24,
     .profiles = 8,
     .profile_shape = 27,
     .bindings = 28},
    {.set_profile = 15, .set_shape = 19, .shape = 20, .set_address = 22, .infer_shapes = 26, .enqueue = 35}};

constexpr Family kTensorRt11{
    "TensorRT",
    {"libnvinfer.so.11", "libnvinfer_lean.so.11", "libnvinfer_dispatch.so.11"},
    110000,
    110199,
    10000,
    11,
    {.deserialize = 1, .host_code = 17},
    {.context = 3,
     .name = 5,
     .shape = 13,
     .dtype = 14,
     .location = 15,
     .is_shape = 16,
     .io_mode = 17,
     .format = 20,
     .profiles = 6,
     .profile_shape = 23,
     .bindings = 24},
    {.set_profile = 14, .set_shape = 18, .shape = 19, .set_address = 21, .infer_shapes = 25, .enqueue = 34}};

// TensorRT-RTX 1.6 has the tables of TensorRT 11, and no code in engines.
constexpr Family kTensorRtRtx1{"TensorRT-RTX",
                               {"libtensorrt_rtx.so.1"},
                               10600,
                               10699,
                               10000,
                               11,
                               {.deserialize = kTensorRt11.runtime.deserialize, .host_code = kNone},
                               kTensorRt11.engine,
                               kTensorRt11.context};

}  // namespace modelbuild::tensorrt
