// Private names of ExecuTorch, whose SDK has the pool's library without its header; checked on 1.5.1:
// threadpool::get_threadpool, ThreadPool::get_thread_count, ThreadPool::_unsafe_reset_threadpool.
#include "api/threads.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "api/fail.hpp"

namespace executorch::extension::threadpool {

class ThreadPool {
 public:
  std::size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(std::uint32_t new_thread_count);
};
ThreadPool* get_threadpool();

}  // namespace executorch::extension::threadpool

namespace modelbuild {
namespace {

constexpr int kMostThreads = 1024;

}  // namespace

void use_threads(int count) {
  static std::mutex mutex;
  static bool in_use = false;
  if (count < 0 || count > kMostThreads) {
    fail_input("threads: " + std::to_string(count) + "; expected 1 to 1024, or 0 for one per core");
  }
  const std::lock_guard<std::mutex> lock(mutex);
  if (count != 0) {
    auto* pool = executorch::extension::threadpool::get_threadpool();
    const auto wanted = static_cast<std::uint32_t>(count);
    if (pool == nullptr) fail_program("ExecuTorch made no threads");
    if (pool->get_thread_count() != wanted) {
      if (in_use) {
        fail_input("threads: " + std::to_string(count) + "; this process has loaded a program with " +
                   std::to_string(pool->get_thread_count()) + ", and its programs share them");
      }
      if (!pool->_unsafe_reset_threadpool(wanted)) fail_program("ExecuTorch made no threads");
    }
  }
  in_use = true;
}

}  // namespace modelbuild
