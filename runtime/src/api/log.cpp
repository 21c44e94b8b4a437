#include "api/log.hpp"

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "api/one_line.hpp"
#include "api/runtime.hpp"

namespace modelbuild {
namespace {

std::mutex sink_mutex;
LogSink current_sink;
std::atomic<LogLevel> least_level{LogLevel::kError};
thread_local std::string first_error;

LogLevel level_of(et_pal_log_level_t level) {
  switch (level) {
    case kDebug:
      return LogLevel::kDebug;
    case kInfo:
      return LogLevel::kInfo;
    case kFatal:
      return LogLevel::kFatal;
    default:
      return LogLevel::kError;
  }
}

void emit(et_timestamp_t /*timestamp*/, et_pal_log_level_t pal_level, const char* /*filename*/,
          const char* /*function*/, std::size_t /*line*/, const char* message, std::size_t length) {
  const LogLevel level = level_of(pal_level);
  const std::string_view text(message, length);
  // Later errors only repeat the first for the callers that noticed it.
  if (level >= LogLevel::kError && first_error.empty()) first_error = ": " + std::string(text);
  if (level < least_level.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(sink_mutex);
  if (current_sink) {
    current_sink(level, text);
  } else {
    std::fprintf(stderr, "%c %s\n", static_cast<char>(pal_level), one_line(text).c_str());
  }
}

[[noreturn]] void give_up() { throw GaveUp("ExecuTorch gave up" + first_error); }

}  // namespace

void start_log() {
  static const bool started = [] {
    auto pal = executorch::runtime::PalImpl::create(emit, __FILE__);
    pal.abort = give_up;
    executorch::runtime::register_pal(pal);
    executorch::runtime::runtime_init();
    return true;
  }();
  static_cast<void>(started);
}

void forget_error() { first_error.clear(); }
std::string error_since() { return first_error; }

void set_log(LogLevel least, LogSink sink) {
  start_log();
  const std::lock_guard<std::mutex> lock(sink_mutex);
  current_sink = std::move(sink);
  least_level.store(least, std::memory_order_relaxed);
}

}  // namespace modelbuild
