// flavour_loop FLAVOUR.so PLAN INPUT=1x3x64x64... -- OUTPUT...: times TensorRT's own loop on a real GPU, with nothing
// of ExecuTorch's, to compare with modelbuild-run. All elements have four bytes. Prints medians of 1,000 runs after
// 100.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "flavour.h"

namespace {

struct Binding {
  std::string name;
  bool is_input;
  std::size_t bytes;
  void* host;
  void* device;
};

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(1);
}

void print(void* /*user*/, mb_trt_severity severity, const char* message) {
  if (severity != MB_TRT_INFO) std::fprintf(stderr, "TensorRT: %s\n", message);
}

std::size_t bytes_of(const mb_trt_dims& dims) {
  std::size_t bytes = 4;
  for (int i = 0; i < dims.rank; ++i) bytes *= static_cast<std::size_t>(dims.sizes[i]);
  return bytes;
}

mb_trt_dims dims_of(const char* text) {
  mb_trt_dims dims{};
  while (*text != '\0') {
    char* end = nullptr;
    dims.sizes[dims.rank++] = std::strtoll(text, &end, 10);
    text = *end == 'x' ? end + 1 : end;
  }
  return dims;
}

Binding allocated(const std::string& name, bool is_input, std::size_t bytes) {
  Binding binding{name, is_input, bytes, std::calloc(bytes, 1), nullptr};
  check(cudaMalloc(&binding.device, bytes) == cudaSuccess, "cudaMalloc");
  check(cudaMemset(binding.device, 0, bytes) == cudaSuccess, "cudaMemset");
  return binding;
}

template <typename Run>
double median_us(const Run& run) {
  std::vector<double> times;
  for (int i = 0; i < 1100; ++i) {
    const auto began = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
    if (i >= 100) times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  check(count > 3, "flavour_loop FLAVOUR.so PLAN INPUT=1x3x64x64... -- OUTPUT...: reading the command line");
  void* library = ::dlopen(arguments[1], RTLD_NOW);
  check(library != nullptr, "dlopen");
  const auto get = reinterpret_cast<const mb_trt_flavour* (*)()>(::dlsym(library, "modelbuild_tensorrt_flavour"));
  const mb_trt_flavour& trt = *get();
  std::ifstream file(arguments[2], std::ios::binary);
  const std::string plan{std::istreambuf_iterator<char>(file), {}};
  const mb_trt_log log{print, nullptr};
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream) == cudaSuccess, "cudaStreamCreate");
  const char* name = trt.load(&log);
  check(name != nullptr, "load");
  mb_trt_engine* engine = trt.deserialize(plan.data(), plan.size(), 0, &log);
  check(engine != nullptr, "deserialize");
  mb_trt_context* context = trt.context(engine);
  check(context != nullptr, "context");

  std::vector<Binding> bindings;
  bool inputs = true;
  for (int i = 3; i < count; ++i) {
    if (std::strcmp(arguments[i], "--") == 0) {
      inputs = false;
      check(trt.infer_shapes(context) == 1, "infer_shapes");
      continue;
    }
    const std::string text = arguments[i];
    const std::string own = text.substr(0, text.find('='));
    const mb_trt_dims dims = inputs ? dims_of(arguments[i] + own.size() + 1) : trt.shape(context, own.c_str());
    if (inputs) check(trt.set_shape(context, own.c_str(), &dims) == 1, "set_shape");
    bindings.push_back(allocated(own, inputs, bytes_of(dims)));
    check(trt.set_address(context, own.c_str(), bindings.back().device) == 1, "set_address");
  }
  const auto copy = [&](bool in) {
    for (const Binding& each : bindings) {
      if (each.is_input != in) continue;
      cudaMemcpyAsync(in ? each.device : each.host, in ? each.host : each.device, each.bytes, cudaMemcpyDefault,
                      stream);
    }
  };
  const double device = median_us([&] { trt.enqueue(context, stream), cudaStreamSynchronize(stream); });
  const double host = median_us([&] {
    copy(true);
    trt.enqueue(context, stream);
    copy(false);
    cudaStreamSynchronize(stream);
  });
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess, "capture");
  trt.enqueue(context, stream);
  check(cudaStreamEndCapture(stream, &captured) == cudaSuccess, "capture");
  check(cudaGraphInstantiate(&graph, captured, 0) == cudaSuccess, "graph");
  const double replayed = median_us([&] { cudaGraphLaunch(graph, stream), cudaStreamSynchronize(stream); });
  std::printf("%s %s: device %.1f us, graph %.1f us, host memory %.1f us\n", name, arguments[2], device, replayed,
              host);
  return 0;
}
