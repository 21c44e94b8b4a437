// A TensorRT library whose engines are JSON: {"magic": "FAKE", "library": "libnvinfer.so.10", "name",
// "inputs": [{"name", "dtype", "profiles": [{"min", "opt", "max"}], "location", "format"}], "outputs": [{"name",
// "dtype", "shape"}], "scale", "bias", "waits", "fails", "no_context", "host_code"}, optionally after the header of a
// real plan. It reads engines of its own file name only, and one with host_code only if that is allowed.
//
// Output i is input i (of as many as there are) * scale + bias, in float32, and has its shape. Work is put on the
// stream, and refuses memory that is not of the GPU that was current.
#include <NvInferRuntime.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fake_cudart.hpp"

using Json = nlohmann::json;

namespace {

using namespace nvinfer1;
using Shape = std::vector<std::int64_t>;

// As the real ones do, it reads engines only that are whole.
bool is_shape(const Json& sizes) {
  const auto whole = [](const Json& size) { return size.is_number_unsigned(); };
  return sizes.is_array() && sizes.size() <= 8 && std::all_of(sizes.begin(), sizes.end(), whole);
}

bool is_profiles(const Json& profiles) {
  const auto whole = [](const Json& each) {
    return each.is_object() && is_shape(each.value("min", Json())) && is_shape(each.value("max", Json()));
  };
  return profiles.is_array() && !profiles.empty() && std::all_of(profiles.begin(), profiles.end(), whole);
}

bool is_whole(const Json& plan) {
  if (!plan.is_object() || plan.value("magic", Json()) != "FAKE") return false;
  std::size_t profiles = 0;
  for (const char* list : {"inputs", "outputs"}) {
    const auto bindings = plan.find(list);
    if (bindings == plan.end() || !bindings->is_array() || bindings->empty()) return false;
    for (const Json& each : *bindings) {
      if (!each.is_object() || !each.value("name", Json()).is_string()) return false;
      for (const char* number : {"dtype", "location", "format"}) {
        if (!each.value(number, Json(0)).is_number_integer()) return false;
      }
      if (list[0] == 'o') continue;
      const Json own = each.value("profiles", Json());
      if (!is_profiles(own) || (profiles != 0 && own.size() != profiles)) return false;
      profiles = own.size();
    }
  }
  for (const char* flag : {"waits", "fails", "no_context", "warns", "host_code"}) {
    if (!plan.value(flag, Json(false)).is_boolean()) return false;
  }
  return plan.value("scale", Json()).is_number() && plan.value("bias", Json()).is_number() &&
         plan.value("name", Json("")).is_string() && plan.value("library", Json("")).is_string();
}

Dims dims_of(const Shape& sizes) {
  Dims dims{};
  dims.nbDims = static_cast<std::int32_t>(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i)
    dims.d[i] = static_cast<std::remove_reference_t<decltype(dims.d[0])>>(sizes[i]);
  return dims;
}

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

bool on(int device, void* pointer) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess && attributes.type == cudaMemoryTypeDevice &&
         attributes.device == device;
}

class Engine;

class Context final : public IExecutionContext, public apiv::VExecutionContext {
 public:
  explicit Context(const Engine* engine) : engine_(engine) { mImpl = this; }
  bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t stream) noexcept override;
  bool setInputShape(const char* name, const Dims& shape) noexcept override;
  Dims getTensorShape(const char* name) const noexcept override;
  bool setTensorAddress(const char* name, void* address) noexcept override {
    addresses_[name] = address;
    return address != nullptr;
  }
  std::int32_t inferShapes(std::int32_t most, const char** missing) noexcept override;
  bool enqueueV3(cudaStream_t stream) noexcept override;

 private:
  const std::string& input_of(std::size_t output) const;

  const Engine* engine_;
  std::size_t profile_ = 0;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, void*> addresses_;
};

class Engine final : public ICudaEngine, public apiv::VCudaEngine {
 public:
  Engine(Json given, ILogger* log) : plan(std::move(given)), logger(log), name_(plan.value("name", "")) {
    mImpl = this;
    cudaGetDevice(&device);
  }

#if STANDIN_MAJOR == 8
  IExecutionContext* createExecutionContext() noexcept override {
#else
  IExecutionContext* createExecutionContext(ExecutionContextAllocationStrategy) noexcept override {
#endif
    return plan.value("no_context", false) ? nullptr : new Context(this);
  }
  const char* getName() const noexcept override { return name_.c_str(); }
  DataType getTensorDataType(const char* name) const noexcept override {
    return static_cast<DataType>(binding(name)->value("dtype", 0));
  }
  TensorLocation getTensorLocation(const char* name) const noexcept override {
    return static_cast<TensorLocation>(binding(name)->value("location", 0));
  }
  bool isShapeInferenceIO(const char* name) const noexcept override { return binding(name)->value("location", 0) != 0; }
  TensorIOMode getTensorIOMode(const char* name) const noexcept override {
    if (binding(name, "inputs") != nullptr) return TensorIOMode::kINPUT;
    return binding(name, "outputs") != nullptr ? TensorIOMode::kOUTPUT : TensorIOMode::kNONE;
  }
  TensorFormat getTensorFormat(const char* name) const noexcept override {
    return static_cast<TensorFormat>(binding(name)->value("format", 0));
  }
  std::int32_t getNbOptimizationProfiles() const noexcept override {
    return static_cast<std::int32_t>(plan["inputs"][0]["profiles"].size());
  }
  Dims getProfileShape(const char* name, std::int32_t profile, OptProfileSelector select) const noexcept override {
    const auto index = static_cast<std::size_t>(profile);
    if (select == OptProfileSelector::kMIN) return dims_of(bound(name, index, "min"));
    const bool opt =
        select == OptProfileSelector::kOPT && (*binding(name, "inputs"))["profiles"][index].contains("opt");
    return dims_of(bound(name, index, opt ? "opt" : "max"));
  }
  std::int32_t getNbIOTensors() const noexcept override {
    return static_cast<std::int32_t>(plan["inputs"].size() + plan["outputs"].size());
  }
  // Without a shape of its own, an output has its input's. A size that a profile leaves open is -1.
  Dims getTensorShape(const char* name) const noexcept override {
    const Json* output = binding(name, "outputs");
    if (output != nullptr && output->contains("shape")) return dims_of((*output)["shape"].get<Shape>());
    const char* input = name;
    for (std::size_t i = 0; output != nullptr && i < plan["outputs"].size(); ++i) {
      if (plan["outputs"][i]["name"] != name) continue;
      input = plan["inputs"][i % plan["inputs"].size()]["name"].get_ref<const std::string&>().c_str();
    }
    Shape shape = bound(input, 0, "min");
    for (std::size_t i = 0; i < shape.size(); ++i) {
      for (std::size_t k = 0; k < plan["inputs"][0]["profiles"].size(); ++k) {
        if (bound(input, k, "max")[i] != shape[i]) shape[i] = -1;
      }
    }
    return dims_of(shape);
  }

  const Json* binding(const char* name, const char* list) const {
    for (const Json& each : plan[list]) {
      if (each["name"] == name) return &each;
    }
    return nullptr;
  }
  const Json* binding(const char* name) const {
    const Json* input = binding(name, "inputs");
    return input != nullptr ? input : binding(name, "outputs");
  }
  Shape bound(const char* name, std::size_t profile, const char* which) const {
    return (*binding(name, "inputs"))["profiles"][profile][which].get<Shape>();
  }

  const Json plan;
  ILogger* const logger;
  int device = 0;

 private:
  const std::string name_;
};

// Shapes of another profile don't hold.
bool Context::setOptimizationProfileAsync(std::int32_t index, cudaStream_t) noexcept {
  profile_ = static_cast<std::size_t>(index);
  shapes_.clear();
  return index >= 0 && index < engine_->getNbOptimizationProfiles();
}

bool Context::setInputShape(const char* name, const Dims& shape) noexcept {
  const Shape sizes(shape.d, shape.d + shape.nbDims);
  const Shape least = engine_->bound(name, profile_, "min");
  const Shape most = engine_->bound(name, profile_, "max");
  bool fits = sizes.size() == least.size() && sizes.size() == most.size();
  for (std::size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes[i] >= least[i] && sizes[i] <= most[i];
  if (!fits) engine_->logger->log(ILogger::Severity::kERROR, "the shape is outside of the profile in use");
  if (fits) shapes_[name] = sizes;
  return fits;
}

const std::string& Context::input_of(std::size_t output) const {
  const Json& inputs = engine_->plan["inputs"];
  return inputs[output % inputs.size()]["name"].get_ref<const std::string&>();
}

Dims Context::getTensorShape(const char* name) const noexcept {
  const Json& outputs = engine_->plan["outputs"];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]["name"] == name) return dims_of(shapes_.at(input_of(i)));
  }
  return dims_of(shapes_.at(name));
}

std::int32_t Context::inferShapes(std::int32_t, const char**) noexcept {
  return static_cast<std::int32_t>(engine_->plan["inputs"].size() - shapes_.size());
}

bool Context::enqueueV3(cudaStream_t stream) noexcept {
  const Json& plan = engine_->plan;
  if (plan.value("fails", false)) {
    engine_->logger->log(ILogger::Severity::kERROR, "the first reason");
    engine_->logger->log(ILogger::Severity::kERROR, "what followed from it");
    return false;
  }
  if (plan.value("warns", false)) engine_->logger->log(ILogger::Severity::kWARNING, "slower than it could be");
  const Json& outputs = plan["outputs"];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& from = input_of(i);
    const std::string to = outputs[i]["name"];
    if (!on(engine_->device, addresses_[from]) || !on(engine_->device, addresses_[to])) {
      std::fprintf(stderr, "fake TensorRT: an address is not on cuda:%d\n", engine_->device);
      std::abort();
    }
    const auto* x = static_cast<const float*>(addresses_[from]);
    auto* y = static_cast<float*>(addresses_[to]);
    const std::size_t count = count_of(shapes_.at(from));
    const float scale = plan["scale"];
    const float bias = plan["bias"];
    if (plan.value("waits", false)) cudaStreamSynchronize(stream);
    fake_launch(stream, [x, y, count, scale, bias] {
      for (std::size_t k = 0; k < count; ++k) y[k] = x[k] * scale + bias;
    });
  }
  return true;
}

class Runtime final : public IRuntime, public apiv::VRuntime {
 public:
  explicit Runtime(ILogger* logger) : logger_(logger) { mImpl = this; }
  void setEngineHostCodeAllowed(bool allowed) noexcept override { host_code_ = allowed; }
#if STANDIN_MAJOR == 8
  ICudaEngine* deserializeCudaEngine(const void* data, std::size_t size, void*) noexcept override {
#else
  ICudaEngine* deserializeCudaEngine(const void* data, std::size_t size) noexcept override {
#endif
    const auto* text = static_cast<const char*>(data);
    const auto* end = text + size;
    if (size > kHeader && std::string_view(text + 1, 3) == "trt") text += kHeader;
    Json plan = Json::parse(text, end, nullptr, false);
    if (is_whole(plan) && plan.value("library", "") == FAKE_NAME) {
      if (!plan.value("host_code", false) || host_code_) return new Engine(std::move(plan), logger_);
      logger_->log(ILogger::Severity::kERROR, "the engine has host code, which is not allowed");
      return nullptr;
    }
    logger_->log(ILogger::Severity::kINTERNAL_ERROR, "the plan is of another version\n");
    logger_->log(ILogger::Severity::kERROR, "deserialization failed");
    return nullptr;
  }

 private:
  static constexpr std::size_t kHeader = 28;
  ILogger* logger_;
  bool host_code_ = false;
};

}  // namespace

extern "C" {

// FAKE_TENSORRT_VERSION replaces the version of every fake library.
std::int32_t getInferLibVersion() {
  const char* other = std::getenv("FAKE_TENSORRT_VERSION");
  return other != nullptr ? std::atoi(other) : NV_TENSORRT_VERSION;
}

void* createInferRuntime_INTERNAL(void* logger, std::int32_t version) {
  if (version != getInferLibVersion()) return nullptr;
#if STANDIN_MAJOR >= 11
  const InterfaceInfo info = static_cast<ILogger*>(logger)->getInterfaceInfo();
  if (std::string(info.kind) != "ILogger" || info.major != 1) return nullptr;
#endif
  return new Runtime(static_cast<ILogger*>(logger));
}

}  // extern "C"
