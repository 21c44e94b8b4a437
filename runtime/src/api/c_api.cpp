// The C API: C functions that call the C++ API.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "api/c_arguments.hpp"
#include "devices/device_services.hpp"

namespace {

namespace c = modelbuild::c;
using modelbuild::Error;

thread_local std::string last_error;
thread_local bool last_error_lost = false;  // there was no memory for it

void remember(const char* message) {
  try {
    last_error = message;
    last_error_lost = false;
  } catch (const std::bad_alloc&) {
    last_error_lost = true;
  }
}

// Catches every exception, so that no exception reaches C.
template <typename Do>
mb_status guarded(Do act) {
  try {
    act();
    return MB_OK;
  } catch (const Error& error) {
    remember(error.what());
    return error.kind() == Error::Kind::kInput ? MB_ERROR_INPUT : MB_ERROR_PROGRAM;
  } catch (const std::bad_alloc&) {
    remember("out of memory");
  } catch (const std::exception& error) {
    remember(error.what());
  } catch (...) {  // for example from a log sink
    remember("an exception from outside this library");
  }
  return MB_ERROR_PROGRAM;
}

// Returns a copy of a text for mb_free.
char* allocated(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

modelbuild::LoadOptions load_options(const mb_load_options* options) {
  const mb_load_options given = c::copied(options, "mb_load_options");
  if (given.keys != nullptr && given.key_count == 0) modelbuild::fail_input("keys are given, but key_count is 0");
  return {c::paths(given.data, given.data_count, "data"),
          c::paths(given.plugins, given.plugin_count, "plugins"),
          c::paths(given.plugin_dirs, given.plugin_dir_count, "plugin_dirs"),
          given.skip_verify == 0,
          given.profile != 0,
          c::paths(given.keys, given.key_count, "keys"),
          given.threads};
}

}  // namespace

struct mb_program {
  std::unique_ptr<modelbuild::Program> program;
  std::string json;
  std::mutex mutex;  // of runs
  std::vector<modelbuild::Value> outputs;
};

const char* mb_version(void) { return MODELBUILD_VERSION; }

int32_t mb_api_version(void) { return MB_API_VERSION; }

const char* mb_last_error(void) { return last_error_lost ? "out of memory" : last_error.c_str(); }

mb_status mb_set_log(int32_t least, mb_log_sink sink, void* user) {
  return guarded([&] {
    const int level = least;  // C lets any number be one
    if (level < MB_LOG_DEBUG || level > MB_LOG_OFF)
      modelbuild::fail_input("there is no log level " + std::to_string(level));
    modelbuild::LogSink forward;
    if (sink != nullptr) {
      forward = [sink, user](modelbuild::LogLevel each, std::string_view message) {
        sink(static_cast<mb_log_level>(each), message.data(), message.size(), user);
      };
    }
    modelbuild::set_log(static_cast<modelbuild::LogLevel>(level), std::move(forward));
  });
}

mb_status mb_describe(const char* path, char** json) {
  return guarded([&] {
    char*& result = c::given(json, "place for the description");
    result = nullptr;
    result = allocated(modelbuild::describe(&c::given(path, "path")).json());
  });
}

mb_status mb_check(const char* path, const mb_load_options* options, char** lines) {
  return guarded([&] {
    char*& result = c::given(lines, "place for the requirements");
    result = nullptr;
    const modelbuild::LoadOptions given = load_options(options);
    std::string text;
    for (const std::string& line : modelbuild::unmet_requirements(&c::given(path, "path"), given)) text += line + "\n";
    result = allocated(text);
  });
}

void mb_free(void* pointer) { std::free(pointer); }

mb_status mb_load(const char* path, const mb_load_options* options, mb_program** program) {
  return guarded([&] {
    mb_program*& result = c::given(program, "place for the program");
    result = nullptr;
    const modelbuild::LoadOptions given = load_options(options);
    auto loaded = std::make_unique<mb_program>();
    loaded->program = modelbuild::Program::load(&c::given(path, "path"), given);
    loaded->json = loaded->program->describe().json();
    result = loaded.release();
  });
}

void mb_unload(mb_program* program) { delete program; }

const char* mb_program_json(const mb_program* program) { return program == nullptr ? nullptr : program->json.c_str(); }

mb_status mb_run(mb_program* program, const char* method, const mb_tensor* inputs, size_t input_count,
                 const mb_run_options* options) {
  return guarded([&] {
    mb_program& own = c::given(program, "program");
    const std::lock_guard<std::mutex> lock(own.mutex);
    own.outputs.clear();  // their memory is invalid from now on, even if the run fails
    const mb_run_options given = c::copied(options, "mb_run_options");
    modelbuild::RunOptions run;
    if (given.use_stream != 0) run.stream = given.stream;
    run.outputs = c::tensors(given.outputs, given.output_count, "outputs");
    run.cuda_graph = given.cuda_graph != 0;
    own.outputs = own.program->run(&c::given(method, "method"), c::tensors(inputs, input_count, "inputs"), run);
  });
}

size_t mb_output_count(const mb_program* program) { return program == nullptr ? 0 : program->outputs.size(); }

const char* mb_output_name(const mb_program* program, size_t index) {
  return index < mb_output_count(program) ? program->outputs[index].name.c_str() : nullptr;
}

mb_status mb_output(const mb_program* program, size_t index, mb_tensor* tensor) {
  return guarded([&] {
    mb_tensor& result = c::given(tensor, "place for the output");
    result = {};
    if (index >= c::given(program, "program").outputs.size())
      modelbuild::fail_input("no output " + std::to_string(index));
    const modelbuild::Value& value = program->outputs[index];
    const modelbuild::Tensor& found = value.tensor;
    switch (value.kind) {
      case modelbuild::Kind::kTensor:
        result = {found.data, found.shape.data(), static_cast<int32_t>(found.shape.size()),
                  static_cast<int32_t>(found.dtype), found.device.cuda ? found.device.index : MB_HOST};
        return;
      case modelbuild::Kind::kInt:
        result = {const_cast<int64_t*>(std::get_if<int64_t>(&value.scalar)), nullptr, 0, MB_INT64, MB_HOST};
        return;
      case modelbuild::Kind::kFloat:
        result = {const_cast<double*>(std::get_if<double>(&value.scalar)), nullptr, 0, MB_FLOAT64, MB_HOST};
        return;
      case modelbuild::Kind::kBool:
        result = {const_cast<bool*>(std::get_if<bool>(&value.scalar)), nullptr, 0, MB_BOOL, MB_HOST};
        return;
      default:
        modelbuild::fail_input("output '" + value.name + "' is neither a tensor nor a number");
    }
  });
}

mb_status mb_last_transfers(const mb_program* program, mb_transfers* transfers) {
  return guarded([&] {
    mb_transfers& result = c::given(transfers, "place for the transfers");
    result = {};
    const modelbuild::Transfers last = c::given(program, "program").program->transfers();
    result = {last.staged_in, last.staged_out, last.copied_in, last.copied_out};
  });
}

mb_status mb_count_graphs(const mb_program* program, mb_graph_counts* counts) {
  return guarded([&] {
    mb_graph_counts& result = c::given(counts, "place for the counts");
    result = {};
    const modelbuild::GraphCounts found = c::given(program, "program").program->graph_counts();
    result = {found.recorded, found.replayed};
  });
}

mb_status mb_take_profile(mb_program* program, char** json) {
  return guarded([&] {
    char*& result = c::given(json, "place for the profile");
    result = nullptr;
    result = allocated(c::given(program, "program").program->take_profile());
  });
}

mb_status mb_device_allocate(int32_t device, size_t bytes, void** pointer) {
  return guarded([&] {
    void*& result = c::given(pointer, "place for the address");
    result = nullptr;
    result = modelbuild::require_device_services().allocate(c::device(device), bytes);
  });
}

void mb_device_free(int32_t device, void* pointer) {
  if (pointer == nullptr) return;
  guarded([&] {
    if (modelbuild::DeviceServices* services = modelbuild::device_services()) services->release(device, pointer);
  });
}

mb_status mb_copy(void* to, const void* from, size_t bytes, int32_t device) {
  return guarded([&] {
    if (bytes == 0) return;
    modelbuild::require_device_services().copy(&c::given(static_cast<char*>(to), "place to copy to"),
                                               &c::given(static_cast<const char*>(from), "memory to copy from"), bytes,
                                               c::device(device));
  });
}
