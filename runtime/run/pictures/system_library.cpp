#include "pictures/system_library.hpp"

#include <dlfcn.h>

#include <utility>

namespace modelbuild {

SystemLibrary::SystemLibrary(std::string name, std::string package)
    : name_(std::move(name)), package_(std::move(package)), handle_(::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  throw MissingLibrary(name_ + " (Debian's package " + package_ + "): " + ::dlerror());
}

void* SystemLibrary::address(const char* symbol) const {
  void* found = ::dlsym(handle_, symbol);
  if (found == nullptr) throw MissingLibrary(name_ + " (Debian's package " + package_ + ") with " + symbol);
  return found;
}

}  // namespace modelbuild
