// contract_check MODE PROGRAM.pte [...]: the device contract, from C++, against
// the fakes. Programs take one float32 tensor [2, 16] and give it times 3 plus
// 1, unless said otherwise. Prints what is to be compared; ends with 1 and a
// line on stderr where a result is wrong.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "api/runtime.hpp"

namespace {

using modelbuild::DeviceBuffer;
using modelbuild::Program;
using modelbuild::Tensor;
using modelbuild::Value;

constexpr std::size_t kCount = 32;
const std::vector<std::int64_t> kShape = {2, 16};

std::atomic<int> staging_lines{0};

void watch_log() {
  modelbuild::set_log(modelbuild::LogLevel::kInfo, [](modelbuild::LogLevel, std::string_view message) {
    if (message.find("stages host memory") == std::string_view::npos) return;
    ++staging_lines;
    std::printf("log: %.*s\n", static_cast<int>(message.size()), message.data());
  });
}

std::vector<float> numbers(float first) {
  std::vector<float> found(kCount);
  for (std::size_t i = 0; i < kCount; ++i) found[i] = first + static_cast<float>(i);
  return found;
}

Tensor tensor(void* data, modelbuild::Device device = {}) {
  return {data, modelbuild::DType::kFloat32, kShape, device};
}

void check(const std::vector<float>& in, const std::vector<float>& out, const char* where) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (out[i] == in[i] * 3 + 1) continue;
    std::fprintf(stderr, "%s: element %zu is %g, expected %g\n", where, i, out[i], in[i] * 3 + 1);
    std::exit(1);
  }
}

std::vector<float> fetched(const Value& value) {
  std::vector<float> out(kCount);
  modelbuild::copy_to_host(value.tensor, out.data());
  return out;
}

// A stream of the caller's, on the current GPU.
class OwnStream {
 public:
  OwnStream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

void run_on_host(Program* program, float first) {
  std::vector<float> in = numbers(first);
  const Tensor input = tensor(in.data());
  // One run at a time, and the result holds until the next: threads that share
  // a program take turns here, too.
  static std::mutex turn;
  const std::lock_guard<std::mutex> lock(turn);
  check(in, fetched(program->run("forward", {&input, 1}).at(0)), "host");
}

void print(const modelbuild::Transfers& t) {
  std::printf("staged_in=%llu staged_out=%llu copied_in=%llu copied_out=%llu\n",
              static_cast<unsigned long long>(t.staged_in), static_cast<unsigned long long>(t.staged_out),
              static_cast<unsigned long long>(t.copied_in), static_cast<unsigned long long>(t.copied_out));
}

// Threads that share a program and threads that have one each, many calls.
void threads(const char* path, int count, int calls) {
  const auto shared = Program::load(path);
  std::vector<std::thread> running;
  for (int i = 0; i < count; ++i) {
    running.emplace_back([&, i] {
      const auto own = Program::load(path);
      for (int call = 0; call < calls; ++call) {
        std::vector<float> in = numbers(static_cast<float>(100 * i + call));
        const Tensor input = tensor(in.data());
        check(in, fetched(own->run("forward", {&input, 1}).at(0)), "own");
        run_on_host(shared.get(), static_cast<float>(call));
      }
    });
  }
  for (std::thread& each : running) each.join();
  std::printf("staging lines: %d\n", staging_lines.load());
}

// Inputs and outputs in memory of a GPU.
void device(const char* path, int gpu, bool with_output) {
  const auto program = Program::load(path);
  const std::vector<float> in = numbers(5);
  DeviceBuffer source(gpu, kCount * sizeof(float));
  DeviceBuffer target(gpu, kCount * sizeof(float));
  source.write(in.data(), kCount * sizeof(float));
  const Tensor input = tensor(source.data(), {true, gpu});
  modelbuild::RunOptions options;
  if (with_output) options.outputs = {tensor(target.data(), {true, gpu})};
  for (int call = 0; call < 3; ++call) {
    const std::vector<Value> values = program->run("forward", {&input, 1}, options);
    check(in, fetched(values.at(0)), "device");
    std::printf("output on %s%s\n", modelbuild::to_string(values[0].tensor.device).c_str(),
                values[0].tensor.data == target.data() ? ", where it was asked for" : "");
  }
  print(program->transfers());
  std::printf("staging lines: %d\n", staging_lines.load());
}

// On the caller's stream: run() does not wait, the stream has everything.
void stream(const char* path, int gpu) {
  const auto program = Program::load(path);
  const std::vector<float> in = numbers(7);
  DeviceBuffer source(gpu, kCount * sizeof(float));
  DeviceBuffer target(gpu, kCount * sizeof(float));
  cudaSetDevice(gpu);
  const OwnStream own;
  cudaMemcpyAsync(source.data(), in.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, own);
  const Tensor input = tensor(source.data(), {true, gpu});
  modelbuild::RunOptions options;
  options.stream = static_cast<cudaStream_t>(own);
  options.outputs = {tensor(target.data(), {true, gpu})};
  program->run("forward", {&input, 1}, options);
  std::vector<float> out(kCount);
  cudaMemcpyAsync(out.data(), target.data(), kCount * sizeof(float), cudaMemcpyDeviceToHost, own);
  std::printf("before the wait: %s\n", out[0] == 0 ? "not there" : "there");
  cudaStreamSynchronize(own);
  check(in, out, "stream");
  std::printf("after the wait: there\n");
}

// On the caller's stream from host memory that changes between the runs, where the program wants device memory: each
// run has its own numbers, although nothing waits for the first before the second is enqueued.
void changing(const char* path) {
  const auto program = Program::load(path);
  const OwnStream own;
  modelbuild::RunOptions options;
  options.stream = static_cast<cudaStream_t>(own);
  std::vector<DeviceBuffer> targets;
  std::vector<float> in;
  for (int call = 0; call < 2; ++call) {
    targets.emplace_back(0, kCount * sizeof(float));
    options.outputs = {tensor(targets.back().data(), {true, 0})};
    in = numbers(static_cast<float>(100 * call));
    const Tensor input = tensor(in.data());
    program->run("forward", {&input, 1}, options);
  }
  cudaStreamSynchronize(own);
  for (int call = 0; call < 2; ++call) {
    std::vector<float> out(kCount);
    targets[static_cast<std::size_t>(call)].read(out.data(), kCount * sizeof(float));
    check(numbers(static_cast<float>(100 * call)), out, call == 0 ? "first" : "second");
  }
  print(program->transfers());
}

void print(const modelbuild::GraphCounts& counts) {
  std::printf("recorded=%llu replayed=%llu\n", static_cast<unsigned long long>(counts.recorded),
              static_cast<unsigned long long>(counts.replayed));
}

// Repeated runs as CUDA graphs: new numbers in the same memory each time, two sets of buffers, each several times in a
// row. On a stream of the caller's, or on the program's own.
void graph(const char* path, bool own_stream) {
  const auto program = Program::load(path);
  const OwnStream own;
  modelbuild::RunOptions options;
  options.cuda_graph = true;
  if (own_stream) options.stream = static_cast<cudaStream_t>(own);
  std::vector<DeviceBuffer> sources;
  std::vector<DeviceBuffer> targets;
  for (int set = 0; set < 2; ++set) {
    sources.emplace_back(0, kCount * sizeof(float));
    targets.emplace_back(0, kCount * sizeof(float));
  }
  // Twice each in a row, then in turn.
  for (const int set : {0, 0, 0, 1, 1, 0, 1, 0}) {
    DeviceBuffer& source = sources[static_cast<std::size_t>(set)];
    const Tensor input = tensor(source.data(), {true, 0});
    options.outputs = {tensor(targets[static_cast<std::size_t>(set)].data(), {true, 0})};
    for (int call = 0; call < 2; ++call) {
      const std::vector<float> in = numbers(static_cast<float>(100 * set + call));
      source.write(in.data(), kCount * sizeof(float));
      const std::vector<Value> values = program->run("forward", {&input, 1}, options);
      if (own_stream) cudaStreamSynchronize(own);
      check(in, fetched(values.at(0)), "graph");
    }
  }
  print(program->graph_counts());
  print(program->transfers());
}

// A run that cannot be a graph says so, in the first run or in the one that would be recorded; runs without one still
// work.
void no_graph(const char* path, bool on_device) {
  const auto program = Program::load(path);
  std::vector<float> in = numbers(3);
  DeviceBuffer source(0, kCount * sizeof(float));
  source.write(in.data(), kCount * sizeof(float));
  const Tensor input = on_device ? tensor(source.data(), {true, 0}) : tensor(in.data());
  modelbuild::RunOptions options;
  options.cuda_graph = true;
  for (int call = 0; call < 2; ++call) {
    try {
      program->run("forward", {&input, 1}, options);
      std::printf("ran\n");
    } catch (const modelbuild::Error& error) {
      std::printf("%s\n", error.what());
    }
  }
  check(in, fetched(program->run("forward", {&input, 1}).at(0)), "without a graph");
  print(program->graph_counts());
}

// Runs with different numbers of rows [n, 16], one behind the other.
void batches(const char* path, int count, char** rows) {
  const auto program = Program::load(path);
  for (int call = 0; call < count; ++call) {
    const auto size = static_cast<std::size_t>(std::atoi(rows[call])) * 16;
    std::vector<float> in(size);
    for (std::size_t i = 0; i < size; ++i) in[i] = static_cast<float>(i) + static_cast<float>(call);
    const Tensor input{in.data(), modelbuild::DType::kFloat32, {std::atoi(rows[call]), 16}, {}};
    const std::vector<Value> values = program->run("forward", {&input, 1});
    std::vector<float> out(values.at(0).tensor.numel());
    modelbuild::copy_to_host(values[0].tensor, out.data());
    bool same = out.size() == size;
    for (std::size_t i = 0; same && i < size; ++i) same = out[i] == in[i] * 3 + 1;
    if (same) continue;
    std::fprintf(stderr, "a run of %s rows is wrong\n", rows[call]);
    std::exit(1);
  }
}

// Programs go in the order they came and in the opposite one, with work still
// under way.
void destroy(const char* path, int gpu) {
  cudaSetDevice(gpu);
  for (const bool first_first : {true, false}) {
    auto first = Program::load(path);
    auto second = Program::load(path);
    const OwnStream own;
    DeviceBuffer source(gpu, kCount * sizeof(float));
    DeviceBuffer target(gpu, kCount * sizeof(float));
    const Tensor input = tensor(source.data(), {true, gpu});
    modelbuild::RunOptions options;
    options.stream = static_cast<cudaStream_t>(own);
    options.outputs = {tensor(target.data(), {true, gpu})};
    first->run("forward", {&input, 1}, options);
    second->run("forward", {&input, 1}, options);
    (first_first ? first : second).reset();
    run_on_host((first_first ? second : first).get(), 1);
    (first_first ? second : first).reset();
  }
  std::printf("gone\n");
}

int run(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  const auto number = [&](int at) { return count > at ? std::atoi(arguments[at]) : 0; };
  watch_log();
  if (mode == "host") {
    run_on_host(Program::load(arguments[2]).get(), 1);
  } else if (mode == "threads") {
    threads(arguments[2], number(3), number(4));
  } else if (mode == "device") {
    device(arguments[2], number(3), number(4) != 0);
  } else if (mode == "stream") {
    stream(arguments[2], number(3));
  } else if (mode == "batches") {
    batches(arguments[2], count - 3, arguments + 3);
  } else if (mode == "changing") {
    changing(arguments[2]);
  } else if (mode == "graph") {
    graph(arguments[2], number(3) != 0);
  } else if (mode == "no_graph") {
    no_graph(arguments[2], number(3) != 0);
  } else if (mode == "destroy") {
    destroy(arguments[2], number(3));
  } else {
    std::fprintf(stderr, "unknown mode '%s'\n", mode.c_str());
    return 2;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const modelbuild::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
