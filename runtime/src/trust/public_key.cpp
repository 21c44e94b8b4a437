#include "trust/public_key.hpp"

#include <algorithm>
#include <cctype>

#include "api/fail.hpp"
#include "files/sha256.hpp"
#include "trust/base64.hpp"
#include "trust/ecdsa.hpp"
#include "trust/small_file.hpp"

namespace modelbuild {
namespace {

constexpr std::size_t kMost = 64 << 10;
constexpr std::string_view kBegin = "-----BEGIN PUBLIC KEY-----";
constexpr std::string_view kEnd = "-----END PUBLIC KEY-----";

// The DER of a SubjectPublicKeyInfo for a key on P-256, up to the point: the type of the key, its curve, and the start
// of the bit string. A point of 65 bytes has both coordinates, a point of 33 bytes only x.
using namespace std::string_view_literals;
constexpr auto kBoth =
    "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00"sv;
constexpr auto kOnlyX =
    "\x30\x39\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x22\x00"sv;

const std::uint8_t* bytes(std::string_view text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

// Returns the point in a PEM, or "" if there is no point.
std::string point(std::string_view pem) {
  const std::size_t begin = pem.find(kBegin);
  if (begin == std::string_view::npos) return "";
  pem.remove_prefix(begin + kBegin.size());
  const std::size_t end = pem.find(kEnd);
  if (end == std::string_view::npos) return "";
  std::string text(pem.substr(0, end));
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  const std::string der = decode_base64(text).value_or("");
  if (der.starts_with(kBoth) && der.size() == kBoth.size() + 65) return der.substr(kBoth.size());
  if (der.starts_with(kOnlyX) && der.size() == kOnlyX.size() + 33) return der.substr(kOnlyX.size());
  return "";
}

}  // namespace

PublicKey::PublicKey(const std::filesystem::path& path) {
  std::string pem;
  try {
    pem = read_small_file(path, kMost);
  } catch (const Error& error) {
    fail_input(error.what());  // an argument of the caller, unlike other files
  }
  point_ = point(pem);
  if (!point_.empty()) return;
  const bool certificate = pem.find("-----BEGIN CERTIFICATE-----") != std::string::npos;
  fail_input(path.string() + (certificate ? ": is a certificate, which this runtime cannot verify with" : "") +
             (certificate ? "; " : ": ") + "expected a public key on the curve P-256 in PEM");
}

bool PublicKey::made(std::string_view signature, std::string_view message) const {
  const Sha256 digest = sha256({bytes(message), message.size()});
  return modelbuild_ecdsa_p256(bytes(point_), point_.size(), bytes(signature), signature.size(), digest.data());
}

}  // namespace modelbuild
