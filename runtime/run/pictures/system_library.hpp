// Functions of a library that the system may have: it is opened when an input needs it.
#pragma once

#include <stdexcept>
#include <string>

namespace modelbuild {

// The message names a library that is needed, and its package.
class MissingLibrary : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SystemLibrary {
 public:
  // `package` is Debian's. Throws MissingLibrary.
  SystemLibrary(std::string name, std::string package);

  // Finds a function by its name in the library. Throws MissingLibrary.
  template <typename Function>
  void find(Function* function, const char* symbol) const {
    *function = reinterpret_cast<Function>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  std::string name_;
  std::string package_;
  void* handle_ = nullptr;  // never closed
};

}  // namespace modelbuild
