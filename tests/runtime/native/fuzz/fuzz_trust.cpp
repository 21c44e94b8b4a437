// What reads signatures of files, on any bytes: as a signature, its statement, its DER, and a public key.
#include "api/runtime.hpp"
#include "memory_file.hpp"
#include "trust/signed_digests.hpp"

namespace {

constexpr std::string_view kKey =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEOqf858N8bI8swXXVF1wj7WnY3rN2\n"
    "87HbRW0kZYxhle/oQteRiCg1ZAX4MKWtyrhYjaRndWu6rtD5MpqKcasNDg==\n"
    "-----END PUBLIC KEY-----\n";

modelbuild::PublicKey key(std::string_view pem) {
  static MemoryFile file;
  return modelbuild::PublicKey(file.write(reinterpret_cast<const std::uint8_t*>(pem.data()), pem.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace modelbuild;
  static const PublicKey fixed = key(kKey);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    read_signed_digests(text, "x.sig", {&fixed, 1});
  } catch (const Error&) {
  }
  try {
    read_statement(text);
  } catch (const BadSignature&) {
  }
  try {
    static_cast<void>(key(text).made(text, text));
  } catch (const Error&) {
  }
  static_cast<void>(fixed.made(text, text));
  return 0;
}
