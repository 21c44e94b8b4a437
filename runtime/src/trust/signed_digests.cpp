// The formats: https://docs.sigstore.dev/about/bundle/ (version 0.3), https://github.com/secure-systems-lab/dsse
// (version 1) and https://github.com/in-toto/attestation (Statement v1), as model-signing 1.1 writes them.
#include "trust/signed_digests.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/fail.hpp"
#include "trust/base64.hpp"

namespace modelbuild {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBundle = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr std::string_view kPayload = "application/vnd.in-toto+json";
constexpr std::string_view kStatement = "https://in-toto.io/Statement/v1";
constexpr std::string_view kPredicate = "https://model_signing/signature/v1.0";
constexpr int kDepth = 16;

Json parse(std::string_view text) {
  const auto bounded = [](int depth, Json::parse_event_t /*event*/, const Json& /*parsed*/) {
    if (depth > kDepth) throw BadSignature("is nested too deeply");
    return true;
  };
  return Json::parse(text, bounded);
}

void expect(const Json& object, const char* member, std::string_view expected) {
  const std::string& found = object.at(member).get_ref<const std::string&>();
  if (found == expected) return;
  throw BadSignature("its " + std::string(member) + " is '" + found.substr(0, 80) + "'; expected '" +
                     std::string(expected) + "'");
}

std::string decoded(const Json& object, const char* member) {
  auto found = decode_base64(object.at(member).get_ref<const std::string&>());
  if (!found) throw BadSignature("its " + std::string(member) + " is not base64");
  return *std::move(found);
}

// Returns the bytes that are signed (DSSE's pre-authentication encoding).
std::string encoding(const std::string& payload) {
  return "DSSEv1 " + std::to_string(kPayload.size()) + " " + std::string(kPayload) + " " +
         std::to_string(payload.size()) + " " + payload;
}

Sha256 digest(const std::string& hex) {
  Sha256 found{};
  if (hex.size() != 2 * found.size()) throw BadSignature("has a digest of " + std::to_string(hex.size()) + " digits");
  for (std::size_t i = 0; i < found.size(); ++i) {
    const char* end = hex.data() + 2 * i + 2;
    if (std::from_chars(end - 2, end, found[i], 16).ptr != end)
      throw BadSignature("has a digest that is not hexadecimal");
  }
  return found;
}

SignedDigests digests(const Json& statement) {
  expect(statement, "_type", kStatement);
  expect(statement, "predicateType", kPredicate);
  const Json& predicate = statement.at("predicate");
  expect(predicate.at("serialization"), "method", "files");
  SignedDigests found;
  for (const Json& resource : predicate.at("resources")) {
    expect(resource, "algorithm", "sha256");
    const auto& name = resource.at("name").get_ref<const std::string&>();
    if (!found.emplace(name, digest(resource.at("digest").get_ref<const std::string&>())).second) {
      throw BadSignature("lists a file twice");
    }
  }
  return found;
}

// Returns the statement in a signature that one of the keys made.
std::string signed_statement(std::string_view signature, std::span<const PublicKey> keys) {
  const Json bundle = parse(signature);
  expect(bundle, "mediaType", kBundle);
  const Json& material = bundle.at("verificationMaterial");
  if (material.contains("x509CertificateChain") || material.contains("certificate")) {
    throw BadSignature("was made with a certificate; this runtime verifies signatures of keys only");
  }
  const Json& envelope = bundle.at("dsseEnvelope");
  expect(envelope, "payloadType", kPayload);
  std::string payload = decoded(envelope, "payload");
  const std::string message = encoding(payload);
  const std::string made = decoded(envelope.at("signatures").at(0), "sig");
  if (std::none_of(keys.begin(), keys.end(), [&](const PublicKey& key) { return key.made(made, message); })) {
    throw BadSignature("was made by another key, or changed");
  }
  return payload;
}

// Calls a function that reads JSON.
template <typename Read>
auto reading(Read read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw BadSignature("is not a signature of OpenSSF Model Signing: " + std::string(error.what()).substr(0, 200));
  }
}

}  // namespace

SignedDigests read_statement(std::string_view statement) {
  return reading([&] { return digests(parse(statement)); });
}

SignedDigests read_signed_digests(std::string_view signature, const std::string& name,
                                  std::span<const PublicKey> keys) {
  try {
    return read_statement(reading([&] { return signed_statement(signature, keys); }));
  } catch (const BadSignature& error) {
    fail_program(name + ": " + error.what());
  }
}

}  // namespace modelbuild
