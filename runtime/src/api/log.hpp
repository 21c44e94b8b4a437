// Log messages of ExecuTorch and the delegates: their sink, and each thread's errors for use in exceptions.
#pragma once

#include <stdexcept>
#include <string>

namespace modelbuild {

// Thrown when ExecuTorch aborts on a broken assumption, such as a kernel that gets a number for a tensor. By default
// ExecuTorch would end the process.
struct GaveUp : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void start_log();           // before anything else of ExecuTorch; repeated calls do nothing
void forget_error();        // on this thread
std::string error_since();  // the first on this thread since forget_error(), as ": what", or ""

}  // namespace modelbuild
