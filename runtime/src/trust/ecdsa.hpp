// ECDSA on the curve P-256 with SHA-256, from Zig's standard library: ecdsa.zig.
#pragma once

#include <cstddef>
#include <cstdint>

// Returns whether a key (a point in the form of SEC 1) made a signature (DER) for a message's SHA-256 of 32 bytes. Any
// bytes are allowed.
extern "C" bool modelbuild_ecdsa_p256(const std::uint8_t* key, std::size_t key_size, const std::uint8_t* signature,
                                      std::size_t signature_size, const std::uint8_t* digest);
