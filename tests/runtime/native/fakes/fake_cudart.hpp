// An addition to CUDA for the fakes: runs a function in place of a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

// On the stream, when something waits for it; in a capture, each time that the graph is launched. The arguments are
// copied. A C function, since the libraries in programs have another C++ library than a build with sanitizers.
extern "C" void fake_launch(cudaStream_t stream, void (*kernel)(const void*), const void* arguments, std::size_t bytes);

template <typename Work>
void fake_launch(cudaStream_t stream, const Work& work) {
  static_assert(std::is_trivially_copyable_v<Work>);
  fake_launch(stream, [](const void* copy) { (*static_cast<const Work*>(copy))(); }, &work, sizeof work);
}
