// A flavour of TensorRT compiled with NVIDIA's headers (NvInferRuntime.h of TensorRT 8.6 or newer, or of TensorRT-RTX),
// for versions that slots.hpp does not list.
#include <NvInferRuntime.h>

#include <array>
#include <memory>
#include <type_traits>

#include "library.hpp"
#include "modelbuild/runtime.h"
#include "objects.hpp"

namespace {

using modelbuild::tensorrt::Library;
using nvinfer1::TensorIOMode;

#define MB_TEXT(x) MB_TEXT_OF(x)
#define MB_TEXT_OF(x) #x

#ifdef MODELBUILD_TENSORRT_RTX
constexpr const char* kProduct = "TensorRT-RTX";
constexpr std::array<const char*, 2> kLibraries = {"libtensorrt_rtx.so." MB_TEXT(NV_TENSORRT_MAJOR), nullptr};
#else
constexpr const char* kProduct = "TensorRT";
constexpr std::array<const char*, 4> kLibraries = {"libnvinfer.so." MB_TEXT(NV_TENSORRT_MAJOR),
                                                   "libnvinfer_lean.so." MB_TEXT(NV_TENSORRT_MAJOR),
                                                   "libnvinfer_dispatch.so." MB_TEXT(NV_TENSORRT_MAJOR), nullptr};
#endif
#if NV_TENSORRT_MAJOR == 8
constexpr int kScale = 1000;
#else
constexpr int kScale = 10000;
#endif

class Logger final : public nvinfer1::ILogger {
 public:
  explicit Logger(const mb_trt_log& sink) : sink_(sink) {}
  void log(Severity severity, const char* message) noexcept override {
    sink_.write(sink_.user, modelbuild::tensorrt::severity_of(static_cast<std::int32_t>(severity)), message);
  }

 private:
  mb_trt_log sink_;
};

Library& library() {
  static Library only;
  return only;
}

mb_trt_dims plain(const nvinfer1::Dims& dims) {
  mb_trt_dims found{};
  found.rank = dims.nbDims > MB_TRT_MAX_DIMS ? -1 : dims.nbDims;
  for (int i = 0; i < found.rank; ++i) found.sizes[i] = dims.d[i];
  return found;
}

}  // namespace

struct mb_trt_engine {
  explicit mb_trt_engine(const mb_trt_log& log) : logger(log) {}
  Logger logger;
  std::unique_ptr<nvinfer1::IRuntime> runtime;
  std::unique_ptr<nvinfer1::ICudaEngine> engine;
};

struct mb_trt_context {
  std::unique_ptr<nvinfer1::IExecutionContext> context;
};

namespace {

// A library runs programs that were compiled with headers of its own version or of an older one of the same major.
const char* load(const mb_trt_log* log) {
  constexpr int kMajor = NV_TENSORRT_VERSION / kScale;
  if (!library()) {
    library() = Library::load(kProduct, kLibraries, {NV_TENSORRT_VERSION, (kMajor + 1) * kScale - 1, kScale}, *log);
  }
  return library() ? library().name().c_str() : nullptr;
}

mb_trt_engine* deserialize(const void* data, std::size_t size, int host_code, const mb_trt_log* log) {
  auto made = std::make_unique<mb_trt_engine>(*log);
  made->runtime.reset(static_cast<nvinfer1::IRuntime*>(library().create_runtime(&made->logger)));
  if (made->runtime == nullptr) return nullptr;
#ifdef MODELBUILD_TENSORRT_RTX
  if (host_code != 0) return nullptr;  // its engines have none
#else
  if (host_code != 0) made->runtime->setEngineHostCodeAllowed(true);
#endif
  made->engine.reset(made->runtime->deserializeCudaEngine(data, size));
  return made->engine == nullptr ? nullptr : made.release();
}

int has_binding(mb_trt_engine* of, const char* name, int is_input) {
  const TensorIOMode mode = of->engine->getTensorIOMode(name);
  return mode == (is_input != 0 ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT) ? 1 : 0;
}

std::int32_t dtype(mb_trt_engine* of, const char* name) {
  switch (of->engine->getTensorDataType(name)) {
    case nvinfer1::DataType::kFLOAT:
      return MB_FLOAT32;
    case nvinfer1::DataType::kHALF:
      return MB_FLOAT16;
    case nvinfer1::DataType::kINT8:
      return MB_INT8;
    case nvinfer1::DataType::kUINT8:
      return MB_UINT8;
    case nvinfer1::DataType::kINT32:
      return MB_INT32;
    case nvinfer1::DataType::kBOOL:
      return MB_BOOL;
#if NV_TENSORRT_MAJOR != 8
    case nvinfer1::DataType::kBF16:
      return MB_BFLOAT16;
    case nvinfer1::DataType::kINT64:
      return MB_INT64;
#endif
    default:
      return -1;
  }
}

const char* obstacle(mb_trt_engine* of, const char* name) {
  if (of->engine->getTensorLocation(name) != nvinfer1::TensorLocation::kDEVICE ||
      of->engine->isShapeInferenceIO(name)) {
    return "its values decide shapes, and TensorRT reads them on the host";
  }
  return of->engine->getTensorFormat(name) == nvinfer1::TensorFormat::kLINEAR ? "" : "its format is not linear";
}

mb_trt_dims profile(mb_trt_engine* of, const char* name, std::int32_t index, mb_trt_bound bound) {
  using Selector = nvinfer1::OptProfileSelector;
  static constexpr Selector kSelectors[] = {Selector::kMIN, Selector::kOPT, Selector::kMAX};
  return plain(of->engine->getProfileShape(name, index, kSelectors[bound]));
}

mb_trt_context* context(mb_trt_engine* of) {
  auto made = std::make_unique<mb_trt_context>();
  made->context.reset(of->engine->createExecutionContext());
  return made->context == nullptr ? nullptr : made.release();
}

int set_shape(mb_trt_context* of, const char* name, const mb_trt_dims* dims) {
  nvinfer1::Dims given{};
  given.nbDims = dims->rank;
  using Size = std::remove_reference_t<decltype(given.d[0])>;
  for (int i = 0; i < dims->rank; ++i) given.d[i] = static_cast<Size>(dims->sizes[i]);
  return of->context->setInputShape(name, given) ? 1 : 0;
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

const mb_trt_flavour kFlavour = {
    MB_TRT_ABI,
    sizeof(mb_trt_flavour),
    kProduct,
    NV_TENSORRT_MAJOR,
    kLibraries.data(),
    load,
    [] { return library().file().c_str(); },
    [](std::int32_t* three) { library().version(three); },
    deserialize,
    [](mb_trt_engine* of) { delete of; },
    [](mb_trt_engine* of) { return of->engine->getName(); },
    [](mb_trt_engine* of) { return of->engine->getNbIOTensors(); },
    has_binding,
    dtype,
    obstacle,
    [](mb_trt_engine* of, const char* name) { return plain(of->engine->getTensorShape(name)); },
    [](mb_trt_engine* of) { return of->engine->getNbOptimizationProfiles(); },
    profile,
    context,
    [](mb_trt_context* of) { delete of; },
    [](mb_trt_context* of, std::int32_t index, void* stream) {
      return of->context->setOptimizationProfileAsync(index, stream_of(stream)) ? 1 : 0;
    },
    set_shape,
    [](mb_trt_context* of) { return of->context->inferShapes(0, nullptr) == 0 ? 1 : 0; },
    [](mb_trt_context* of, const char* name) { return plain(of->context->getTensorShape(name)); },
    [](mb_trt_context* of, const char* name, void* address) {
      return of->context->setTensorAddress(name, address) ? 1 : 0;
    },
    [](mb_trt_context* of, void* stream) { return of->context->enqueueV3(stream_of(stream)) ? 1 : 0; },
};

}  // namespace

const mb_trt_flavour* modelbuild_tensorrt_flavour(void) { return &kFlavour; }
