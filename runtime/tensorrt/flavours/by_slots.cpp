// A flavour of TensorRT that needs no header of NVIDIA's. MODELBUILD_TENSORRT_FAMILY is a row of slots.hpp.
#include <iterator>
#include <memory>
#include <type_traits>

#include "library.hpp"
#include "modelbuild/runtime.h"
#include "objects.hpp"
#include "slots.hpp"

namespace {

using modelbuild::tensorrt::kNone;
using modelbuild::tensorrt::Library;
using modelbuild::tensorrt::Object;

constexpr modelbuild::tensorrt::Family kFamily = modelbuild::tensorrt::MODELBUILD_TENSORRT_FAMILY;
constexpr auto kEngine = kFamily.engine;
constexpr auto kContext = kFamily.context;

using Dims = modelbuild::tensorrt::DimsOf<std::conditional_t<kFamily.major >= 10, std::int64_t, std::int32_t>>;
using Logger =
    std::conditional_t<kFamily.major >= 11, modelbuild::tensorrt::VersionedLogger, modelbuild::tensorrt::PlainLogger>;

// nvinfer1's enumerations.
enum IoMode : std::int32_t { kInput = 1, kOutput = 2 };
constexpr std::int32_t kOnDevice = 0;
constexpr std::int32_t kLinear = 0;
constexpr std::int32_t kStaticMemory = 0;
constexpr std::int32_t kTypes[] = {MB_FLOAT32, MB_FLOAT16, MB_INT8,     MB_INT32, MB_BOOL,
                                   MB_UINT8,   -1,         MB_BFLOAT16, MB_INT64};

Library& library() {
  static Library only;
  return only;
}

}  // namespace

struct mb_trt_engine {
  explicit mb_trt_engine(const mb_trt_log& log) : logger(log) {}
  ~mb_trt_engine() {
    Object::free(engine);
    Object::free(runtime);
  }
  mb_trt_engine(const mb_trt_engine&) = delete;
  mb_trt_engine& operator=(const mb_trt_engine&) = delete;

  Logger logger;
  Object* runtime = nullptr;
  Object* engine = nullptr;
};

struct mb_trt_context {
  Object* context;
};

namespace {

const char* load(const mb_trt_log* log) {
  if (!library()) {
    library() =
        Library::load(kFamily.product, kFamily.libraries, {kFamily.oldest, kFamily.newest, kFamily.scale}, *log);
  }
  return library() ? library().name().c_str() : nullptr;
}

// TensorRT 8.5 has no method for embedded code.
bool knows_host_code() {
  return kFamily.runtime.host_code != kNone && (kFamily.major != 8 || library().number() >= 8600);
}

mb_trt_engine* deserialize(const void* data, std::size_t size, int host_code, const mb_trt_log* log) {
  if (host_code != 0 && !knows_host_code()) {
    log->write(log->user, MB_TRT_ERROR, "this version can't load code that is embedded in an engine");
    return nullptr;
  }
  auto made = std::make_unique<mb_trt_engine>(*log);
  made->runtime = static_cast<Object*>(library().create_runtime(&made->logger));
  if (made->runtime == nullptr) return nullptr;
  if (host_code != 0) made->runtime->call<void>(kFamily.runtime.host_code, true);
  if constexpr (kFamily.major == 8) {
    void* plugins = nullptr;
    made->engine = made->runtime->call<Object*>(kFamily.runtime.deserialize, data, size, plugins);
  } else {
    made->engine = made->runtime->call<Object*>(kFamily.runtime.deserialize, data, size);
  }
  return made->engine == nullptr ? nullptr : made.release();
}

int has_binding(mb_trt_engine* of, const char* name, int is_input) {
  return of->engine->call<std::int32_t>(kEngine.io_mode, name) == (is_input != 0 ? kInput : kOutput) ? 1 : 0;
}

std::int32_t dtype(mb_trt_engine* of, const char* name) {
  const auto type = of->engine->call<std::int32_t>(kEngine.dtype, name);
  return type >= 0 && type < std::ssize(kTypes) ? kTypes[type] : -1;
}

const char* obstacle(mb_trt_engine* of, const char* name) {
  if (of->engine->call<std::int32_t>(kEngine.location, name) != kOnDevice ||
      of->engine->call<bool>(kEngine.is_shape, name)) {
    return "its values decide shapes, and TensorRT reads them on the host";
  }
  return of->engine->call<std::int32_t>(kEngine.format, name) == kLinear ? "" : "its format is not linear";
}

mb_trt_dims profile(mb_trt_engine* of, const char* name, std::int32_t index, mb_trt_bound bound) {
  return mb_trt_dims(of->engine->call<Dims>(kEngine.profile_shape, name, index, static_cast<std::int32_t>(bound)));
}

mb_trt_context* context(mb_trt_engine* of) {
  Object* made = nullptr;
  if constexpr (kFamily.major == 8) {
    made = of->engine->call<Object*>(kEngine.context);
  } else {
    made = of->engine->call<Object*>(kEngine.context, kStaticMemory);
  }
  return made == nullptr ? nullptr : new mb_trt_context{made};
}

void context_free(mb_trt_context* of) {
  Object::free(of->context);
  delete of;
}

int set_shape(mb_trt_context* of, const char* name, const mb_trt_dims* dims) {
  const Dims given = Dims::of(*dims);
  return of->context->call<bool>(kContext.set_shape, name, &given) ? 1 : 0;
}

int infer_shapes(mb_trt_context* of) {
  const char** missing = nullptr;
  return of->context->call<std::int32_t>(kContext.infer_shapes, std::int32_t{0}, missing) == 0 ? 1 : 0;
}

const mb_trt_flavour kFlavour = {
    MB_TRT_ABI,
    sizeof(mb_trt_flavour),
    kFamily.product,
    kFamily.newest / kFamily.scale,
    kFamily.libraries.data(),
    load,
    [] { return library().file().c_str(); },
    [](std::int32_t* three) { library().version(three); },
    deserialize,
    [](mb_trt_engine* of) { delete of; },
    [](mb_trt_engine* of) { return of->engine->call<const char*>(kEngine.name); },
    [](mb_trt_engine* of) { return of->engine->call<std::int32_t>(kEngine.bindings); },
    has_binding,
    dtype,
    obstacle,
    [](mb_trt_engine* of, const char* name) { return mb_trt_dims(of->engine->call<Dims>(kEngine.shape, name)); },
    [](mb_trt_engine* of) { return of->engine->call<std::int32_t>(kEngine.profiles); },
    profile,
    context,
    context_free,
    [](mb_trt_context* of, std::int32_t index, void* stream) {
      return of->context->call<bool>(kContext.set_profile, index, stream) ? 1 : 0;
    },
    set_shape,
    infer_shapes,
    [](mb_trt_context* of, const char* name) { return mb_trt_dims(of->context->call<Dims>(kContext.shape, name)); },
    [](mb_trt_context* of, const char* name, void* address) {
      return of->context->call<bool>(kContext.set_address, name, address) ? 1 : 0;
    },
    [](mb_trt_context* of, void* stream) { return of->context->call<bool>(kContext.enqueue, stream) ? 1 : 0; },
};

}  // namespace

const mb_trt_flavour* modelbuild_tensorrt_flavour(void) { return &kFlavour; }
