// The threads of this process that compute on the CPU: one pool of ExecuTorch's, which all programs share.
#pragma once

namespace modelbuild {

// Sets the number of threads, before the process loads its first program; 0 leaves it as it is. Delegates keep the pool
// of their first run, so later calls throw Error for another number. Throws Error for a number below 0 or above 1024.
void use_threads(int count);

}  // namespace modelbuild
