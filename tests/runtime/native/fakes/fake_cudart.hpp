// An addition to CUDA for the fakes: runs a function in place of a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

// On the stream, when something waits for it; in a capture, each time that the graph is launched.
extern "C" void fake_launch(cudaStream_t stream, const std::function<void()>& work);
