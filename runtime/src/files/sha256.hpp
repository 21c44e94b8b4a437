// SHA-256 (FIPS 180-4), with the CPU's own instructions if it has them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace modelbuild {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::span<const std::uint8_t> data);

// The same as sha256(), without the CPU's own instructions; tests compare the two.
Sha256 portable_sha256(std::span<const std::uint8_t> data);

}  // namespace modelbuild
