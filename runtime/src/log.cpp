#include "log.hpp"

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "modelbuild/runtime.hpp"

namespace modelbuild {
namespace {

constexpr std::size_t kMostErrorText = 1000;

std::mutex sink_mutex;
LogSink current_sink;
std::atomic<LogLevel> least_level{LogLevel::kError};
thread_local std::string thread_errors;

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
  if (level >= LogLevel::kError && thread_errors.size() < kMostErrorText) {
    thread_errors += thread_errors.empty() ? ": " : "; ";
    thread_errors += text;
  }
  if (level < least_level.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(sink_mutex);
  if (current_sink) {
    current_sink(level, text);
  } else {
    std::fprintf(stderr, "%c %.*s\n", static_cast<char>(pal_level), static_cast<int>(length), message);
  }
}

}  // namespace

void start_log() {
  static const bool started = [] {
    executorch::runtime::register_pal(executorch::runtime::PalImpl::create(emit, __FILE__));
    executorch::runtime::runtime_init();
    return true;
  }();
  static_cast<void>(started);
}

void forget_errors() { thread_errors.clear(); }
std::string last_errors() { return thread_errors; }

void set_log(LogLevel least, LogSink sink) {
  start_log();
  const std::lock_guard<std::mutex> lock(sink_mutex);
  current_sink = std::move(sink);
  least_level.store(least, std::memory_order_relaxed);
}

}  // namespace modelbuild
