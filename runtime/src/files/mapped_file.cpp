#include "files/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "api/runtime.hpp"

namespace modelbuild {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto fail = [&](int error) { throw Error(Error::Kind::kProgram, path.string() + ": " + std::strerror(error)); };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
  if (file < 0) fail(errno);
  struct stat status{};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int error = S_ISDIR(status.st_mode) ? EISDIR : ENODEV;
    ::close(file);
    fail(error);
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ != 0) {
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int error = errno;
  ::close(file);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    fail(error);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace modelbuild
