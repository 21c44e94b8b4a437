// Reads a signature in the format of OpenSSF Model Signing: a Sigstore bundle with an in-toto statement of digests.
#pragma once

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "files/sha256.hpp"
#include "trust/public_key.hpp"

namespace modelbuild {

// The SHA-256 of files by their paths in the signed folder; "." for a signed file.
using SignedDigests = std::map<std::string, Sha256, std::less<>>;

// Thrown for bytes that are not a statement or a signature, or are of another kind.
struct BadSignature : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the digests in a statement, the JSON that a signature signs. Throws BadSignature.
SignedDigests read_statement(std::string_view statement);

// Returns the digests in a signature that one of the keys made. `name` is the signature's name, for errors. Throws
// Error for any other bytes.
SignedDigests read_signed_digests(std::string_view signature, const std::string& name, std::span<const PublicKey> keys);

}  // namespace modelbuild
