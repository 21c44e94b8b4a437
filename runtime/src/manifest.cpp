#include "manifest.hpp"

#include <algorithm>

#include "sha256.hpp"

namespace modelbuild {
namespace {

constexpr std::string_view kKey = "modelbuild.manifest";
constexpr std::string_view kMagic = "mbmanif1";

// The end of the file: JSON, its length in 8 bytes, the SHA-256 of all bytes before it, the magic.
constexpr std::size_t kLength = 8;
constexpr std::size_t kSealed = std::tuple_size_v<Sha256> + kMagic.size();

}  // namespace

bool check_manifest(flatbuffer::Bytes file) {
  if (file.size() < kLength + kSealed) return false;
  if (!std::equal(kMagic.begin(), kMagic.end(), file.end() - kMagic.size())) return false;
  const flatbuffer::Bytes sealed = file.first(file.size() - kSealed);
  const Sha256 found = sha256(sealed);
  if (!std::equal(found.begin(), found.end(), file.begin() + sealed.size())) {
    throw Damaged("its SHA-256 is not the one in its manifest");
  }
  return true;
}

bool names_manifest(const std::vector<flatbuffer::Table>& named_data) {
  // A .ptd has more behind the key, for there may be several of them.
  return std::any_of(named_data.begin(), named_data.end(),
                     [](const flatbuffer::Table& entry) { return entry.string(0).starts_with(kKey); });
}

}  // namespace modelbuild
