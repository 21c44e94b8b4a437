// For kernels that compute on all threads of the process.
#pragma once

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include "kernel.hpp"

namespace modelbuild::kernels {

// Calls a function with each number below `count`, on all threads, in parts of at least `grain` numbers. Returns
// whether the threads ran.
template <typename Function>
bool each_of(std::int64_t count, std::int64_t grain, Function&& act) {
  return executorch::extension::parallel_for(0, count, std::max<std::int64_t>(grain, 1),
                                             [&](std::int64_t from, std::int64_t until) {
                                               for (std::int64_t number = from; number < until; ++number) act(number);
                                             });
}

}  // namespace modelbuild::kernels
