#include "method/profiler.hpp"

#include <executorch/runtime/platform/clock.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace modelbuild {

namespace er = executorch::runtime;

std::string Profiler::take() {
  nlohmann::json runs = nlohmann::json::array();
  for (const std::vector<Event>& events : std::exchange(runs_, {})) {
    nlohmann::json run = nlohmann::json::array();
    for (const Event& event : events) {
      if (event.end == 0) continue;  // it failed
      run.push_back({{"name", event.name},
                     {"chain", event.chain},
                     {"instruction", event.instruction},
                     {"delegate", event.delegate},
                     {"index", event.index},
                     {"start_ns", er::ticks_to_ns(event.start)},
                     {"end_ns", er::ticks_to_ns(event.end)}});
    }
    runs.push_back(std::move(run));
  }
  const nlohmann::json made = {{"version", 1}, {"runs", std::move(runs)}};
  return made.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// ExecuTorch begins a block for each run, and a block for loading, which is not a run.
void Profiler::create_event_block(const char* name) {
  if (std::string_view(name) == "Execute") runs_.emplace_back();
}

er::EventTracerEntry Profiler::begin(Event event) {
  er::EventTracerEntry entry{};
  entry.event_id = -1;
  entry.delegate_event_id_type = event.delegate ? er::DelegateDebugIdType::kInt : er::DelegateDebugIdType::kNone;
  if (runs_.empty()) return entry;  // loading
  entry.event_id = static_cast<std::int64_t>(runs_.back().size());
  runs_.back().push_back(std::move(event));
  runs_.back().back().start = er::pal_current_ticks();
  return entry;
}

er::EventTracerEntry Profiler::start_profiling(const char* name, er::ChainID chain, er::DebugHandle handle) {
  const bool current = chain == er::kUnsetChainId && handle == er::kUnsetDebugHandle;
  return begin({name, current ? current_chain_id() : chain,
                static_cast<std::int64_t>(current ? current_debug_handle() : handle), -1, false, 0, 0});
}

er::EventTracerEntry Profiler::start_profiling_delegate(const char* name, er::DelegateDebugIntId index) {
  return begin({name == nullptr ? "" : name, current_chain_id(), static_cast<std::int64_t>(current_debug_handle()),
                index, true, 0, 0});
}

void Profiler::end_profiling(er::EventTracerEntry entry) {
  const et_timestamp_t now = er::pal_current_ticks();
  if (entry.event_id < 0 || runs_.empty()) return;
  const auto index = static_cast<std::size_t>(entry.event_id);
  if (index < runs_.back().size()) runs_.back()[index].end = now;
}

void Profiler::end_profiling_delegate(er::EventTracerEntry entry, const void* /*metadata*/, std::size_t /*size*/) {
  end_profiling(entry);
}

void Profiler::log_profiling_delegate(const char* name, er::DelegateDebugIntId index, et_timestamp_t start,
                                      et_timestamp_t end, const void* /*metadata*/, std::size_t /*size*/) {
  if (runs_.empty()) return;
  runs_.back().push_back({name == nullptr ? "" : name, current_chain_id(),
                          static_cast<std::int64_t>(current_debug_handle()), index, true, start, end});
}

}  // namespace modelbuild
