#include "files/manifest.hpp"

#include <algorithm>

#include "files/sha256.hpp"

namespace modelbuild {
namespace {

// Two marks, so that a file that lost one mark still has the other: the key in the list of named data, which executorch
// writes at the start of a file, and the magic at its end.
constexpr std::string_view kKey = "modelbuild.manifest";
constexpr std::size_t kHead = 1 << 20;
constexpr std::string_view kMagic = "mbmanif1";

// The end of the file: JSON, its length in 8 bytes, the SHA-256 of all bytes before the digest, the magic.
constexpr std::size_t kLength = 8;
constexpr std::size_t kSealed = std::tuple_size_v<Sha256> + kMagic.size();

}  // namespace

std::string_view read_manifest(flatbuffer::Bytes file, bool verify) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (file.size() < kLength + kSealed || !text.ends_with(kMagic)) {
    if (text.substr(0, kHead).find(kKey) == std::string_view::npos) return {};  // a file without a manifest
    throw Damaged("its manifest is cut off or overwritten");
  }
  const flatbuffer::Bytes sealed = file.first(file.size() - kSealed);
  if (verify) {
    const Sha256 found = sha256(sealed);
    if (!std::equal(found.begin(), found.end(), sealed.end())) {
      throw Damaged("its SHA-256 is not the one in its manifest");
    }
  }
  const std::size_t end = sealed.size() - kLength;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kLength; ++i) size |= std::uint64_t{sealed[end + i]} << (8 * i);
  if (size == 0 || size > end) throw Damaged("its manifest cannot be read");
  return text.substr(end - size, size);
}

}  // namespace modelbuild
