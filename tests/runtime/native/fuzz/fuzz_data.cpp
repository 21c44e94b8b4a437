// What reads a .ptd, on any bytes.
#include "pte/ptd.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    modelbuild::check_ptd({data, size});
  } catch (const modelbuild::flatbuffer::Malformed&) {
  }
  return 0;
}
