// Records the time of each instruction of a method, and of each event that a delegate reports.
#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <cstdint>
#include <string>
#include <vector>

namespace modelbuild {

// ExecuTorch calls it during loading and runs, on the thread that runs. Not thread-safe.
class Profiler final : public executorch::runtime::EventTracer {
 public:
  // Returns the events of the runs since the last call as one JSON object, and forgets them. runtime.h describes the
  // object.
  std::string take();

  void create_event_block(const char* name) override;
  executorch::runtime::EventTracerEntry start_profiling(const char* name, executorch::runtime::ChainID chain,
                                                        executorch::runtime::DebugHandle handle) override;
  executorch::runtime::EventTracerEntry start_profiling_delegate(
      const char* name, executorch::runtime::DelegateDebugIntId index) override;
  void end_profiling(executorch::runtime::EventTracerEntry entry) override;
  void end_profiling_delegate(executorch::runtime::EventTracerEntry entry, const void* metadata,
                              std::size_t size) override;
  void log_profiling_delegate(const char* name, executorch::runtime::DelegateDebugIntId index, et_timestamp_t start,
                              et_timestamp_t end, const void* metadata, std::size_t size) override;

  // Values and allocations are not recorded.
  void track_allocation(executorch::runtime::AllocatorID, std::size_t) override {}
  executorch::runtime::AllocatorID track_allocator(const char*) override { return 0; }
  void set_delegation_intermediate_output_filter(executorch::runtime::EventTracerFilterBase*) override {}
  executorch::runtime::Result<bool> log_evalue(const executorch::runtime::EValue&,
                                               executorch::runtime::LoggedEValueType) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(const char*,
                                                                     executorch::runtime::DelegateDebugIntId,
                                                                     const executorch::aten::Tensor&) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(
      const char*, executorch::runtime::DelegateDebugIntId,
      executorch::runtime::ArrayRef<executorch::aten::Tensor>) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(const char*,
                                                                     executorch::runtime::DelegateDebugIntId,
                                                                     const int&) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(const char*,
                                                                     executorch::runtime::DelegateDebugIntId,
                                                                     const bool&) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(const char*,
                                                                     executorch::runtime::DelegateDebugIntId,
                                                                     const double&) override {
    return false;
  }

 private:
  struct Event {
    std::string name;
    std::int64_t chain;
    std::int64_t instruction;
    std::int64_t index;  // of a delegate's event; -1 for other events, and for events with a name only
    bool delegate;
    et_timestamp_t start;
    et_timestamp_t end;
  };

  executorch::runtime::EventTracerEntry begin(Event event);

  std::vector<std::vector<Event>> runs_;
};

}  // namespace modelbuild
