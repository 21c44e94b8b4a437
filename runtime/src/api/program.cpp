// A loaded program and its runs.
#include <atomic>
#include <mutex>
#include <utility>

#include "api/check_ports.hpp"
#include "api/fail.hpp"
#include "api/log.hpp"
#include "api/threads.hpp"
#include "delegates/plugins.hpp"
#include "devices/graphs.hpp"
#include "files/describe.hpp"
#include "method/loaded_method.hpp"
#include "method/profiler.hpp"

namespace modelbuild {

namespace {

int next_number() {
  static std::atomic<int> last{0};
  return ++last;
}

// Methods that the manifest names share a state with other methods of their module. All other methods have their own.
int module_of(const Description& description, const MethodDescription& method) {
  const auto known = description.modules.find(method.name);
  return known != description.modules.end() ? known->second
                                            : -1 - static_cast<int>(&method - description.methods.data());
}

}  // namespace

struct Program::State {
  explicit State(SignedFiles found) : files(std::move(found)) {}

  SignedFiles files;  // `program` reads them
  Description description;
  mutable std::mutex mutex;            // guards all members below
  std::unique_ptr<Profiler> profiler;  // nullptr unless runs are profiled
  SharedState shared;                  // of methods that share their state
  std::optional<LoadedProgram> program;
  std::map<std::string, LoadedMethod, std::less<>> methods;  // destroyed before the above, which they use
  std::map<std::string, Graphs, std::less<>> graphs;         // destroyed before `methods`: they use their delegates
  Transfers transfers;
  GraphCounts graph_counts;
  int number = next_number();  // among those that this process loads

  std::vector<Value> run(const MethodDescription& method, std::span<const Tensor> inputs, const RunOptions& options,
                         std::optional<Graphs::Key> key);
  LoadedMethod& loaded(const MethodDescription& method);
};

// Methods that share a state are loaded together: loading one sets its initial state.
LoadedMethod& Program::State::loaded(const MethodDescription& method) {
  if (!program) {
    std::vector<std::filesystem::path> data;
    data.reserve(description.data.size());
    for (const auto& [file, size] : description.data) data.push_back(files.content(file));
    program.emplace(files.content(description.path), data, description.path);
  }
  const auto load = [this](const MethodDescription& each, SharedState* state) -> LoadedMethod& {
    const Owner owner{number, module_of(description, each)};
    return methods.try_emplace(each.name, *program, each, description.path, owner, profiler.get(), state).first->second;
  };
  if (!description.shared_state) return load(method, nullptr);
  for (const MethodDescription& each : description.methods) load(each, &shared);
  return load(method, &shared);
}

std::vector<Value> Program::State::run(const MethodDescription& method, std::span<const Tensor> inputs,
                                       const RunOptions& options, std::optional<Graphs::Key> key) {
  LoadedMethod& loaded = this->loaded(method);
  forget_error();
  Graphs& kept = graphs[method.name];
  const bool record = std::exchange(kept.last, std::nullopt) == key && key;
  Entered entered(loaded.queue(), options.stream);
  if (const Graphs::Graph* known = key ? kept.find(*key) : nullptr) {
    loaded.queue()->replay(*known->recording);
    transfers = entered.leave();
    ++graph_counts.replayed;
    return known->outputs;
  }
  loaded.set_inputs(inputs);
  loaded.set_outputs(options.outputs);
  if (record) loaded.queue()->begin_recording();
  loaded.execute();
  std::unique_ptr<Recording> recording;
  if (record) {
    recording = loaded.queue()->end_recording();
    loaded.queue()->replay(*recording);
    ++graph_counts.recorded;
  }
  transfers = entered.leave();
  std::vector<Value> values = loaded.outputs();
  if (record) kept.add({*key, std::move(recording), values});
  kept.last = std::move(key);
  return values;
}

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::~Program() = default;
const Description& Program::describe() const { return state_->description; }

Transfers Program::transfers() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->transfers;
}

GraphCounts Program::graph_counts() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->graph_counts;
}

std::string Program::take_profile() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->profiler == nullptr) {
    throw Error(Error::Kind::kInput,
                state_->description.path + ": its runs are not profiled; expected the load option");
  }
  return state_->profiler->take();
}

std::unique_ptr<Program> Program::load(const std::filesystem::path& path, const LoadOptions& options) {
  start_log();
  return with_errors([&] {
    auto state = std::make_unique<State>(SignedFiles(options.keys));
    use_threads(options.threads);
    const std::filesystem::path pte = state->files.program(path);
    state->description = modelbuild::describe(pte, options, &state->files);
    load_plugins(state->description, options);
    if (options.profile) state->profiler = std::make_unique<Profiler>();
    return std::unique_ptr<Program>(new Program(std::move(state)));
  });
}

std::vector<Value> Program::run(std::string_view name, std::span<const Tensor> inputs, const RunOptions& options) {
  const MethodDescription& method = state_->description.method(name);
  check_inputs(method, inputs);
  check_outputs(method, options.outputs);
  std::optional<Graphs::Key> key;
  if (options.cuda_graph) key = Graphs::key(method, inputs, options.outputs);
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return with_errors([&] {
    try {
      return state_->run(method, inputs, options, std::move(key));
    } catch (const GaveUp& error) {
      fail_program(state_->description.path + ": method '" + method.name + "' failed: " + error.what());
    }
  });
}

}  // namespace modelbuild
