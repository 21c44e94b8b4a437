// Messages of ExecuTorch and the delegates: where they go, and each thread's errors for use in exceptions.
#pragma once

#include <stdexcept>
#include <string>

namespace modelbuild {

// ExecuTorch met what it takes for granted that it never meets, such as a kernel that gets a number for a tensor. Where
// nothing else is said it would end the process.
struct GaveUp : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void start_log();           // before anything else of ExecuTorch; repeated calls do nothing
void forget_error();        // on this thread
std::string error_since();  // the first on this thread since forget_error(), as ": what", or ""

}  // namespace modelbuild
