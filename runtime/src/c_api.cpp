// The C API: the C++ one behind plain functions.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "device_services.hpp"
#include "modelbuild/runtime.h"
#include "modelbuild/runtime.hpp"

namespace {

thread_local std::string last_error;

template <typename Do>
mb_status guarded(Do act) {
  try {
    act();
    return MB_OK;
  } catch (const modelbuild::Error& error) {
    last_error = error.what();
    return error.kind() == modelbuild::Error::Kind::kInput ? MB_ERROR_INPUT : MB_ERROR_PROGRAM;
  } catch (const std::exception& error) {
    last_error = error.what();
    return MB_ERROR_PROGRAM;
  } catch (...) {  // of a log sink, say: nothing may pass into C
    last_error = "an exception that is none of this library's";
    return MB_ERROR_PROGRAM;
  }
}

[[noreturn]] void refuse(const std::string& message) {
  throw modelbuild::Error(modelbuild::Error::Kind::kInput, message);
}

const char* text(const char* given, const char* what) {
  if (given == nullptr) refuse(std::string("no ") + what + " is given");
  return given;
}

std::vector<std::filesystem::path> paths(const char* const* given, std::size_t count) { return {given, given + count}; }

// A caller compiled against an older header passes a shorter struct: what it lacks is zero.
template <typename Options>
Options copied(const Options* given) {
  Options options{};
  if (given != nullptr) std::memcpy(&options, given, std::min(given->struct_size, sizeof(Options)));
  return options;
}

bool known(modelbuild::DType type) {
  try {
    modelbuild::dtype_size(type);
    return true;
  } catch (const modelbuild::Error&) {
    return false;
  }
}

modelbuild::Tensor tensor(const mb_tensor& given) {
  const auto type = static_cast<modelbuild::DType>(given.dtype);
  if (static_cast<std::int32_t>(type) != given.dtype || !known(type)) {  // cut off, it could be another's number
    refuse("element type " + std::to_string(given.dtype) + " is not supported");
  }
  if (given.rank < 0 || (given.rank != 0 && given.shape == nullptr)) {
    refuse("a tensor of rank " + std::to_string(given.rank) + " without sizes");
  }
  if (given.device < MB_HOST) refuse("there is no device " + std::to_string(given.device));
  return {given.data,
          type,
          {given.shape, given.shape + given.rank},
          {given.device != MB_HOST, given.device == MB_HOST ? 0 : given.device}};
}

std::vector<modelbuild::Tensor> tensors(const mb_tensor* given, std::size_t count) {
  std::vector<modelbuild::Tensor> found;
  found.reserve(count);
  for (std::size_t i = 0; i < count; ++i) found.push_back(tensor(given[i]));
  return found;
}

}  // namespace

struct mb_program {
  std::unique_ptr<modelbuild::Program> program;
  std::string json;
  std::mutex mutex;  // of `outputs`
  std::vector<modelbuild::Value> outputs;
};

const char* mb_last_error(void) { return last_error.c_str(); }

void mb_set_log(mb_log_level least, mb_log_sink sink, void* user) {
  modelbuild::LogSink forward;
  if (sink != nullptr) {
    forward = [sink, user](modelbuild::LogLevel level, std::string_view message) {
      sink(static_cast<mb_log_level>(level), message.data(), message.size(), user);
    };
  }
  modelbuild::set_log(static_cast<modelbuild::LogLevel>(least), std::move(forward));
}

mb_status mb_describe(const char* path, char** json) {
  return guarded([&] {
    const std::string described = modelbuild::describe(text(path, "path")).json();
    *json = static_cast<char*>(std::malloc(described.size() + 1));
    if (*json == nullptr) throw std::bad_alloc();
    std::memcpy(*json, described.c_str(), described.size() + 1);
  });
}

void mb_free(void* pointer) { std::free(pointer); }

mb_status mb_load(const char* path, const mb_load_options* options, mb_program** program) {
  return guarded([&] {
    const mb_load_options given = copied(options);
    auto loaded = std::make_unique<mb_program>();
    loaded->program = modelbuild::Program::load(
        text(path, "path"), {paths(given.data, given.data_count), paths(given.plugins, given.plugin_count),
                             paths(given.plugin_dirs, given.plugin_dir_count)});
    loaded->json = loaded->program->describe().json();
    *program = loaded.release();
  });
}

void mb_unload(mb_program* program) { delete program; }
const char* mb_program_json(const mb_program* program) { return program->json.c_str(); }

mb_status mb_run(mb_program* program, const char* method, const mb_tensor* inputs, size_t input_count,
                 const mb_run_options* options) {
  return guarded([&] {
    const mb_run_options given = copied(options);
    modelbuild::RunOptions run;
    if (given.use_stream != 0) run.stream = given.stream;
    run.outputs = tensors(given.outputs, given.output_count);
    run.cuda_graph = given.cuda_graph != 0;
    const std::vector<modelbuild::Tensor> given_inputs = tensors(inputs, input_count);
    const std::lock_guard<std::mutex> lock(program->mutex);
    program->outputs.clear();  // what they point to is not theirs any more, whatever becomes of the run
    program->outputs = program->program->run(text(method, "method"), given_inputs, run);
  });
}

size_t mb_output_count(const mb_program* program) { return program->outputs.size(); }

const char* mb_output_name(const mb_program* program, size_t index) {
  return index < program->outputs.size() ? program->outputs[index].name.c_str() : nullptr;
}

mb_status mb_output(const mb_program* program, size_t index, mb_tensor* tensor) {
  return guarded([&] {
    if (index >= program->outputs.size()) {
      throw modelbuild::Error(modelbuild::Error::Kind::kInput, "no output " + std::to_string(index));
    }
    const modelbuild::Value& value = program->outputs[index];
    const modelbuild::Tensor& found = value.tensor;
    switch (value.kind) {
      case modelbuild::Kind::kTensor:
        *tensor = {found.data, found.shape.data(), static_cast<int32_t>(found.shape.size()),
                   static_cast<int32_t>(found.dtype), found.device.cuda ? found.device.index : MB_HOST};
        return;
      case modelbuild::Kind::kInt:
        *tensor = {const_cast<int64_t*>(std::get_if<int64_t>(&value.scalar)), nullptr, 0, MB_INT64, MB_HOST};
        return;
      case modelbuild::Kind::kFloat:
        *tensor = {const_cast<double*>(std::get_if<double>(&value.scalar)), nullptr, 0, MB_FLOAT64, MB_HOST};
        return;
      case modelbuild::Kind::kBool:
        *tensor = {const_cast<bool*>(std::get_if<bool>(&value.scalar)), nullptr, 0, MB_BOOL, MB_HOST};
        return;
      default:
        throw modelbuild::Error(modelbuild::Error::Kind::kInput, "output '" + value.name + "' is no tensor or number");
    }
  });
}

void mb_last_transfers(const mb_program* program, mb_transfers* transfers) {
  const modelbuild::Transfers last = program->program->transfers();
  *transfers = {last.staged_in, last.staged_out, last.copied_in, last.copied_out};
}

void mb_count_graphs(const mb_program* program, mb_graph_counts* counts) {
  const modelbuild::GraphCounts found = program->program->graph_counts();
  *counts = {found.recorded, found.replayed};
}

mb_status mb_device_allocate(int32_t device, size_t bytes, void** pointer) {
  return guarded([&] { *pointer = modelbuild::require_device_services().allocate(device, bytes); });
}

void mb_device_free(int32_t device, void* pointer) {
  if (modelbuild::DeviceServices* services = modelbuild::device_services()) services->release(device, pointer);
}

mb_status mb_copy(void* to, const void* from, size_t bytes, int32_t device) {
  return guarded([&] { modelbuild::require_device_services().copy(to, from, bytes, device); });
}
