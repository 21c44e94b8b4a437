// Messages of ExecuTorch and the delegates: where they go, and the last error of each thread for use in exceptions.
#pragma once

#include <string>

namespace modelbuild {

void start_log();           // before anything else of ExecuTorch; repeated calls do nothing
void forget_errors();       // on this thread
std::string last_errors();  // on this thread since forget_errors(): ": first; second", or ""

}  // namespace modelbuild
