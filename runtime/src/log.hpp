// Messages of ExecuTorch and the delegates: where they go, and each thread's errors for use in exceptions.
#pragma once

#include <string>

namespace modelbuild {

void start_log();           // before anything else of ExecuTorch; repeated calls do nothing
void forget_error();        // on this thread
std::string error_since();  // the first on this thread since forget_error(), as ": what", or ""

}  // namespace modelbuild
