// What reads a .pte, on any bytes.
#include "files/contents.hpp"
#include "files/manifest.hpp"
#include "files/signature.hpp"
#include "pte/pte.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace modelbuild;
  for (const bool verified : {true, false}) {
    Description found;
    SignedFiles files({});
    try {
      const std::string signature = read_contents(read_manifest({data, size}, verified), &found);
      if (!signature.empty()) apply_signature("p.pte", signature, &files, &found);
    } catch (const Damaged&) {
    } catch (const Error&) {
    }
    static_cast<void>(found.json().size() + found.text().size());
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
