// A flavour of TensorRT that implements flavour.h. Only this file needs NVIDIA's headers (NvInferRuntime.h of TensorRT
// 10 or newer, or of TensorRT-RTX). TensorRT's library is loaded with the first engine.
#include <NvInferRuntime.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "flavour.h"
#include "modelbuild/runtime.h"

namespace {

using nvinfer1::TensorIOMode;

class Logger final : public nvinfer1::ILogger {
 public:
  explicit Logger(mb_trt_log sink) : sink_(sink) {}
  void log(Severity severity, const char* message) noexcept override {
    sink_(severity <= Severity::kERROR     ? MB_TRT_ERROR
          : severity == Severity::kWARNING ? MB_TRT_WARNING
                                           : MB_TRT_INFO,
          message);
  }

 private:
  mb_trt_log sink_;
};

using Create = void* (*)(void* logger, std::int32_t version);

// Returns the libraries that match these headers, the one with most features first.
std::array<std::string, 3> libraries() {
  const std::string major = std::to_string(NV_TENSORRT_MAJOR);
#ifdef MODELBUILD_TENSORRT_RTX
  return {"libtensorrt_rtx.so." + major, "", ""};
#else
  return {"libnvinfer.so." + major, "libnvinfer_lean.so." + major, "libnvinfer_dispatch.so." + major};
#endif
}

std::string loaded_name = "no TensorRT library loaded";

Create runtime_factory(mb_trt_log log) {
  static std::mutex mutex;
  static Create create = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  std::string problems;
  for (const std::string& name : libraries()) {
    if (create != nullptr || name.empty()) break;
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problems += (problems.empty() ? "" : "; ") + std::string(::dlerror());
      continue;
    }
    create = reinterpret_cast<Create>(::dlsym(library, "createInferRuntime_INTERNAL"));
    if (create != nullptr) loaded_name = name;
  }
  if (create == nullptr) log(MB_TRT_ERROR, problems.c_str());
  return create;
}

mb_trt_dims plain(const nvinfer1::Dims& dims) {
  mb_trt_dims found{};
  found.rank = dims.nbDims > MB_TRT_MAX_DIMS ? -1 : dims.nbDims;
  for (int i = 0; i < found.rank; ++i) found.sizes[i] = dims.d[i];
  return found;
}

std::int32_t dtype_of(nvinfer1::DataType type) {
  switch (type) {
    case nvinfer1::DataType::kFLOAT:
      return MB_FLOAT32;
    case nvinfer1::DataType::kHALF:
      return MB_FLOAT16;
    case nvinfer1::DataType::kBF16:
      return MB_BFLOAT16;
    case nvinfer1::DataType::kINT8:
      return MB_INT8;
    case nvinfer1::DataType::kUINT8:
      return MB_UINT8;
    case nvinfer1::DataType::kINT32:
      return MB_INT32;
    case nvinfer1::DataType::kINT64:
      return MB_INT64;
    case nvinfer1::DataType::kBOOL:
      return MB_BOOL;
    default:
      return -1;
  }
}

}  // namespace

struct mb_trt_engine {
  explicit mb_trt_engine(mb_trt_log log) : logger(log) {}
  Logger logger;
  std::unique_ptr<nvinfer1::IRuntime> runtime;
  std::unique_ptr<nvinfer1::ICudaEngine> engine;
};

struct mb_trt_context {
  std::unique_ptr<nvinfer1::IExecutionContext> context;
};

namespace {

mb_trt_engine* deserialize(const void* data, std::size_t size, mb_trt_log log) {
  const Create create = runtime_factory(log);
  if (create == nullptr) return nullptr;
  // The lean and dispatch runtimes return an invalid pointer if there is no driver.
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    log(MB_TRT_ERROR, "no CUDA device");
    return nullptr;
  }
  auto engine = std::make_unique<mb_trt_engine>(log);
  engine->runtime.reset(static_cast<nvinfer1::IRuntime*>(create(&engine->logger, NV_TENSORRT_VERSION)));
  if (engine->runtime == nullptr) return nullptr;
  engine->engine.reset(engine->runtime->deserializeCudaEngine(data, size));
  return engine->engine == nullptr ? nullptr : engine.release();
}

int has_binding(mb_trt_engine* engine, const char* name, int is_input) {
  const TensorIOMode mode = engine->engine->getTensorIOMode(name);
  return mode == (is_input != 0 ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT) ? 1 : 0;
}

mb_trt_dims profile(mb_trt_engine* engine, const char* name, mb_trt_bound bound) {
  using Selector = nvinfer1::OptProfileSelector;
  static constexpr Selector kSelectors[] = {Selector::kMIN, Selector::kOPT, Selector::kMAX};
  return plain(engine->engine->getProfileShape(name, 0, kSelectors[bound]));
}

mb_trt_context* make_context(mb_trt_engine* engine) {
  auto context = std::make_unique<mb_trt_context>();
  context->context.reset(engine->engine->createExecutionContext());
  return context->context == nullptr ? nullptr : context.release();
}

int set_shape(mb_trt_context* context, const char* name, const mb_trt_dims* dims) {
  nvinfer1::Dims given{};
  given.nbDims = dims->rank;
  for (int i = 0; i < dims->rank; ++i) given.d[i] = dims->sizes[i];
  return context->context->setInputShape(name, given) ? 1 : 0;
}

const mb_trt_flavour kFlavour = {
    MB_TRT_ABI,
    sizeof(mb_trt_flavour),
    [] { return loaded_name.c_str(); },
    deserialize,
    [](mb_trt_engine* engine) { delete engine; },
    [](mb_trt_engine* engine) { return engine->engine->getName(); },
    has_binding,
    [](mb_trt_engine* engine, const char* name) { return dtype_of(engine->engine->getTensorDataType(name)); },
    profile,
    make_context,
    [](mb_trt_context* context) { delete context; },
    set_shape,
    [](mb_trt_context* context) { return context->context->inferShapes(0, nullptr) == 0 ? 1 : 0; },
    [](mb_trt_context* context, const char* name) { return plain(context->context->getTensorShape(name)); },
    [](mb_trt_context* context, const char* name, void* address) {
      return context->context->setTensorAddress(name, address) ? 1 : 0;
    },
    [](mb_trt_context* context, void* stream) {
      return context->context->enqueueV3(static_cast<cudaStream_t>(stream)) ? 1 : 0;
    },
};

}  // namespace

const mb_trt_flavour* modelbuild_tensorrt_flavour(void) { return &kFlavour; }
