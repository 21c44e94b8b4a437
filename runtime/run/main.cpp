// modelbuild-run PROGRAM.pte --input name=file: runs a program on .npy files and pictures.
//
// Exit codes: 0 success, 1 loading, running or writing failed, 2 invalid inputs or command line.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "api/one_line.hpp"
#include "npy.hpp"
#include "options.hpp"
#include "outputs.hpp"
#include "pictures/picture.hpp"
#include "report.hpp"

namespace modelbuild {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(Error::Kind::kInput, message); }

std::string names_of(const MethodDescription& method) {
  std::string names;
  for (const Port& port : method.inputs) names += (names.empty() ? "" : ", ") + port.name;
  return names.empty() ? "none" : names;
}

void check_names(const Files& files, const MethodDescription& method) {
  for (const auto& [name, file] : files) {
    const auto port = std::find_if(method.inputs.begin(), method.inputs.end(),
                                   [&name = name](const Port& each) { return each.name == name; });
    if (port == method.inputs.end()) fail("no input '" + name + "'; inputs: " + names_of(method));
    if (port->kind != Kind::kTensor) {
      fail("input " + to_string(*port) + " is fixed in the program; it takes no file");
    }
  }
}

std::vector<Array> read_inputs(const Files& files, const MethodDescription& method, bool resize) {
  check_names(files, method);
  std::vector<Array> arrays;
  for (const Port& port : method.inputs) {
    if (port.kind != Kind::kTensor) continue;
    const auto given =
        std::find_if(files.begin(), files.end(), [&](const auto& each) { return each.first == port.name; });
    if (given == files.end()) fail("missing input " + to_string(port));
    if (is_picture(given->second)) {
      arrays.push_back(read_picture(port, given->second, resize));
      continue;
    }
    const auto converts = [&](DType dtype) { return port.dtype == DType::kBfloat16 && dtype == DType::kFloat32; };
    // Checked before the elements are read.
    Array array = read_npy(given->second, [&](DType dtype, const std::vector<std::int64_t>& shape) {
      check_input(port, converts(dtype) ? port.dtype : dtype, shape);
    });
    arrays.push_back(converts(array.dtype) ? to_bfloat16(array) : std::move(array));
  }
  return arrays;
}

Array on_host(const Value& value) {
  const auto plain = [](DType type, const void* data) {
    Array array{type, {}, std::vector<char>(dtype_size(type))};
    std::memcpy(array.data.data(), data, array.data.size());
    return array;
  };
  if (const auto* number = std::get_if<std::int64_t>(&value.scalar)) return plain(DType::kInt64, number);
  if (const auto* real = std::get_if<double>(&value.scalar)) return plain(DType::kFloat64, real);
  if (const auto* flag = std::get_if<bool>(&value.scalar)) return plain(DType::kBool, flag);
  if (value.kind != Kind::kTensor) fail("output '" + value.name + "' is neither a tensor nor a number");
  Array array{value.tensor.dtype, value.tensor.shape, std::vector<char>(value.tensor.nbytes())};
  copy_to_host(value.tensor, array.data.data());
  return array;
}

bool callers_device(const Port& port) { return port.kind == Kind::kTensor && port.device.cuda && !port.planned; }

// Copies the inputs to device memory. The copies must live as long as the runs.
std::vector<DeviceBuffer> to_device(const Options& options, const MethodDescription& method,
                                    std::vector<Tensor>* tensors) {
  const auto any = [](const std::vector<Port>& ports) {
    return std::any_of(ports.begin(), ports.end(), callers_device);
  };
  if (!options.device_io_gpu && !any(method.inputs) && !any(method.outputs)) {
    fail("--device-io: the program keeps no input or output in device memory; build it with device_io = true");
  }
  std::vector<DeviceBuffer> buffers;
  auto tensor = tensors->begin();
  for (const Port& port : method.inputs) {
    if (port.kind != Kind::kTensor) continue;
    Tensor& given = *tensor++;
    if (!options.device_io_gpu && !callers_device(port)) continue;
    const int device = options.device_io_gpu.value_or(port.device.index);
    buffers.emplace_back(device, std::max<std::size_t>(given.nbytes(), 1));
    buffers.back().write(given.data, given.nbytes());
    given.data = buffers.back().data();
    given.device = {true, device};
  }
  return buffers;
}

RunOptions run_options(const Options& options) {
  RunOptions found;
  found.cuda_graph = options.cuda_graph;
  return found;
}

// A method with its inputs. The tensors refer to the arrays, or to their copies in device memory.
struct Call {
  const MethodDescription* method = nullptr;
  std::vector<Array> arrays;
  std::vector<Tensor> tensors;
  std::vector<DeviceBuffer> buffers;
};

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point began) {
  return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

Latency measure(Program* program, const Options& options, const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < options.warmup + options.repeat; ++i) {
    const auto began = Clock::now();
    program->run(call.method->name, call.tensors, run_options(options));
    if (i >= options.warmup) times.push_back(ms_since(began));
  }
  return latency_of(std::move(times), options.warmup);
}

// Runs the program as measure() does, and writes the profiler's events of the measured runs.
void profile(Program* program, const Options& options, const Call& call) {
  for (const int runs : {options.warmup, options.repeat}) {
    program->take_profile();
    for (int i = 0; i < runs; ++i) program->run(call.method->name, call.tensors, run_options(options));
  }
  write_file(*options.profile, program->take_profile());
}

// The largest amount of this process's memory that was in RAM at once. Linux states it in /proc; getrusage() would
// count the process that started this one.
std::optional<std::int64_t> peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

Call read_call(const CallOptions& given, const Options& options, const Description& program) {
  const MethodDescription& method = program.method(given.method);
  Call call;
  call.method = &method;
  call.arrays = read_inputs(given.inputs, method, options.resize);
  call.tensors.reserve(call.arrays.size());
  for (Array& array : call.arrays) call.tensors.push_back(array.tensor());
  if (options.device_io) call.buffers = to_device(options, method, &call.tensors);
  return call;
}

// Returns the files of a method's outputs in a folder. Throws Error if two outputs have one file, or an output has the
// file of an input.
std::vector<std::filesystem::path> output_files(const std::filesystem::path& folder, const std::vector<Value>& values,
                                                const Options& options) {
  std::vector<std::filesystem::path> found;
  for (const Value& value : values) {
    const std::filesystem::path path = folder / file_name(value.name);
    if (std::find(found.begin(), found.end(), path) != found.end()) {
      fail("output '" + value.name + "': another output has the same file " + path.string());
    }
    for (const CallOptions& call : options.calls) {
      for (const auto& [name, file] : call.inputs) {
        std::error_code ignored;
        if (std::filesystem::equivalent(path, file, ignored)) {
          fail("output '" + value.name + "': its file " + path.string() + " is that of input '" + name + "'");
        }
      }
    }
    found.push_back(path);
  }
  return found;
}

// Writes the outputs of a call, and adds them to the report. `number` is 0 if there is only one call.
void report_outputs(const std::vector<Value>& values, const Options& options, const Call& call, int number,
                    Report* report) {
  std::optional<std::filesystem::path> folder = options.output_dir;
  if (folder && number > 0) *folder /= std::to_string(number);
  std::vector<std::filesystem::path> files;
  if (folder) {
    files = output_files(*folder, values, options);
    std::filesystem::create_directories(*folder);
  }
  auto path = files.begin();
  for (const Value& value : values) {
    Array array = on_host(value);
    report->outputs.push_back({value.name, dtype_name(array.dtype), array.shape, "", number, call.method->name});
    if (!folder) continue;
    if (array.dtype == DType::kBfloat16) array = from_bfloat16(array);
    write_file(*path, npy(array));
    report->outputs.back().path = (path++)->string();
  }
}

Report run(const Options& options) {
  const auto began = Clock::now();
  const std::unique_ptr<Program> program = Program::load(options.program, options.load);
  const double load_ms = ms_since(began);
  std::vector<Call> calls;
  calls.reserve(options.calls.size());
  for (const CallOptions& each : options.calls) calls.push_back(read_call(each, options, program->describe()));
  const MethodDescription& method = *calls.front().method;

  Report report;
  report.program = program->describe().path;
  report.method = method.name;
  std::size_t next = 0;
  for (const Port& port : method.inputs) {
    if (port.kind != Kind::kTensor) continue;
    const Array& array = calls.front().arrays[next++];
    report.inputs.push_back({port.name, dtype_name(array.dtype), array.shape, "", 0, method.name});
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const int number = calls.size() > 1 ? static_cast<int>(i) + 1 : 0;
    const auto started = Clock::now();
    const std::vector<Value> values = program->run(calls[i].method->name, calls[i].tensors, run_options(options));
    if (i == 0) report.first_ms = load_ms + ms_since(started);
    report_outputs(values, options, calls[i], number, &report);
  }
  report.transfers = program->transfers();
  if (options.profile) {
    profile(program.get(), options, calls.front());
  } else if (options.repeat > 0) {
    report.latency = measure(program.get(), options, calls.front());
  }
  if (options.cuda_graph) report.graphs = program->graph_counts();
  report.peak_memory = peak_memory();
  return report;
}

int main_of(int count, char** arguments) {
  prepare_streams();
  try {
    const Options options = parse_options(count, arguments);
    if (options.help) {
      print(kUsage);
      return 0;
    }
    set_log(options.log);
    if (options.describe) {
      const LoadOptions& load = options.load;
      const Description description = describe(options.program, load.data, load.verify, load.plugin_dirs, load.keys);
      const std::vector<std::string> unmet = unmet_requirements(options.program, load);
      print(options.json ? json(description, unmet) : text(description, unmet));
      return 0;
    }
    const Report report = run(options);
    print(options.json ? json(report) : text(report));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.kind() == Error::Kind::kInput ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", one_line(error.what()).c_str());
    return 1;
  }
}

}  // namespace
}  // namespace modelbuild

int main(int count, char** arguments) { return modelbuild::main_of(count, arguments); }
