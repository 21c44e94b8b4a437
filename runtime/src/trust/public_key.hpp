// A public key on the curve P-256, as `openssl ec -pubout` writes it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace modelbuild {

class PublicKey {
 public:
  // Reads a file in PEM. Throws Error of kind kInput.
  explicit PublicKey(const std::filesystem::path& path);

  // Returns whether this key made a signature (DER) of a message.
  bool made(std::string_view signature, std::string_view message) const;

 private:
  std::string point_;  // in the form of SEC 1
};

}  // namespace modelbuild
