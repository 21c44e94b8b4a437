// What reads a .pte, on any bytes.
#include "files/describe.hpp"
#include "files/manifest.hpp"
#include "pte/pte.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace modelbuild;
  try {
    check_manifest({data, size}, true);
  } catch (const Damaged&) {
  }
  for (const bool checked : {true, false}) {
    try {
      const PteFile file({data, size});
      if (checked) check_pte(file);
      const Description found = read_pte(file, [](const std::string&) { return true; });
      static_cast<void>(found.json().size() + found.text().size());
    } catch (const flatbuffer::Malformed&) {
    }
  }
  return 0;
}
