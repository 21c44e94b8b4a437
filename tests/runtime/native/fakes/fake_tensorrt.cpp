// A flavour of TensorRT whose engines are JSON: {"magic": "FAKE", "name",
// "inputs": [{"name", "dtype", "min", "max"}], "outputs": [{"name", "dtype"}],
// "scale", "bias", "waits"}. Output i is input i (of as many as there are) * scale +
// bias, in float32, and has its shape. Work is put on the stream, and refuses
// memory that is not of the GPU that was current.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "fake_cudart.hpp"
#include "flavour.h"
#include "modelbuild/runtime.h"

using Json = nlohmann::json;

struct mb_trt_engine {
  Json plan;
  int device = 0;
  std::string name;
};

struct mb_trt_context {
  mb_trt_engine* engine;
  std::map<std::string, mb_trt_dims> shapes;
  std::map<std::string, void*> addresses;
};

namespace {

const Json* binding(const mb_trt_engine* engine, const char* list, const std::string& name) {
  for (const Json& each : engine->plan[list]) {
    if (each["name"] == name) return &each;
  }
  return nullptr;
}

mb_trt_dims dims(const Json& sizes) {
  mb_trt_dims found{};
  found.rank = static_cast<int>(sizes.size());
  for (int i = 0; i < found.rank; ++i) found.sizes[i] = sizes[static_cast<std::size_t>(i)];
  return found;
}

std::size_t numel(const mb_trt_dims& shape) {
  std::size_t count = 1;
  for (int i = 0; i < shape.rank; ++i) count *= static_cast<std::size_t>(shape.sizes[i]);
  return count;
}

bool on(int device, void* pointer) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess && attributes.type == cudaMemoryTypeDevice &&
         attributes.device == device;
}

const std::string& input_of(const mb_trt_context* context, std::size_t output) {
  const Json& inputs = context->engine->plan["inputs"];
  return inputs[output % inputs.size()]["name"].get_ref<const std::string&>();
}

mb_trt_dims shape(mb_trt_context* context, const char* name) {
  const Json& outputs = context->engine->plan["outputs"];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]["name"] == name) return context->shapes.at(input_of(context, i));
  }
  return context->shapes.at(name);
}

int enqueue(mb_trt_context* context, void* stream) {
  const Json& plan = context->engine->plan;
  if (plan.value("fails", false)) return 0;
  const Json& outputs = plan["outputs"];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& from = input_of(context, i);
    const std::string to = outputs[i]["name"];
    if (!on(context->engine->device, context->addresses[from]) ||
        !on(context->engine->device, context->addresses[to])) {
      std::fprintf(stderr, "fake TensorRT: an address is not on cuda:%d\n", context->engine->device);
      std::abort();
    }
    const auto* x = static_cast<const float*>(context->addresses[from]);
    auto* y = static_cast<float*>(context->addresses[to]);
    const std::size_t count = numel(context->shapes.at(from));
    const float scale = plan["scale"];
    const float bias = plan["bias"];
    if (plan.value("waits", false)) cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
    fake_launch(static_cast<cudaStream_t>(stream), [x, y, count, scale, bias] {
      for (std::size_t i = 0; i < count; ++i) y[i] = x[i] * scale + bias;
    });
  }
  return 1;
}

// As the real ones do, it reads engines only that are whole.
bool whole_sizes(const Json& binding, const char* name) {
  const auto found = binding.find(name);
  const auto whole = [](const Json& size) { return size.is_number_unsigned(); };
  return found != binding.end() && found->is_array() && found->size() <= MB_TRT_MAX_DIMS &&
         std::all_of(found->begin(), found->end(), whole);
}

bool whole(const Json& plan) {
  if (!plan.is_object() || plan.value("magic", Json()) != "FAKE") return false;
  for (const char* list : {"inputs", "outputs"}) {
    const auto bindings = plan.find(list);
    if (bindings == plan.end() || !bindings->is_array() || bindings->empty()) return false;
    for (const Json& each : *bindings) {
      if (!each.is_object() || !each.value("name", Json()).is_string()) return false;
      if (!each.value("dtype", Json()).is_number_integer()) return false;
      if (list[0] == 'i' && !(whole_sizes(each, "min") && whole_sizes(each, "max"))) return false;
    }
  }
  for (const char* flag : {"waits", "fails", "no_context"}) {
    if (!plan.value(flag, Json(false)).is_boolean()) return false;
  }
  return plan.value("scale", Json()).is_number() && plan.value("bias", Json()).is_number() &&
         plan.value("name", Json("")).is_string();
}

mb_trt_engine* deserialize(const void* data, std::size_t size, mb_trt_log log) {
  const auto* text = static_cast<const char*>(data);
  Json plan = Json::parse(text, text + size, nullptr, false);
  if (!whole(plan)) {
    log(MB_TRT_ERROR, "not a fake engine");
    return nullptr;
  }
  auto* engine = new mb_trt_engine{std::move(plan), 0, ""};
  cudaGetDevice(&engine->device);
  engine->name = engine->plan.value("name", "");
  return engine;
}

const mb_trt_flavour kFlavour = {
    MB_TRT_ABI,
    sizeof(mb_trt_flavour),
    [] { return "fake"; },
    deserialize,
    [](mb_trt_engine* engine) { delete engine; },
    [](mb_trt_engine* engine) { return engine->name.c_str(); },
    [](mb_trt_engine* engine, const char* name, int is_input) {
      return binding(engine, is_input != 0 ? "inputs" : "outputs", name) != nullptr ? 1 : 0;
    },
    [](mb_trt_engine* engine, const char* name) -> int32_t {
      const Json* found = binding(engine, "inputs", name);
      if (found == nullptr) found = binding(engine, "outputs", name);
      return (*found)["dtype"];
    },
    [](mb_trt_engine* engine, const char* name, mb_trt_bound bound) {
      return dims((*binding(engine, "inputs", name))[bound == MB_TRT_MIN ? "min" : "max"]);
    },
    [](mb_trt_engine* engine) -> mb_trt_context* {
      return engine->plan.value("no_context", false) ? nullptr : new mb_trt_context{engine, {}, {}};
    },
    [](mb_trt_context* context) { delete context; },
    [](mb_trt_context* context, const char* name, const mb_trt_dims* given) {
      context->shapes[name] = *given;
      return 1;
    },
    [](mb_trt_context*) { return 1; },
    shape,
    [](mb_trt_context* context, const char* name, void* address) {
      context->addresses[name] = address;
      return address != nullptr ? 1 : 0;
    },
    enqueue,
};

}  // namespace

const mb_trt_flavour* modelbuild_tensorrt_flavour(void) { return &kFlavour; }
