#include "trust/memory_copy.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "api/fail.hpp"

namespace modelbuild {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  fail_program(path.string() + ": " + std::strerror(error));
}

}  // namespace

MemoryCopy::MemoryCopy(const std::filesystem::path& path) {
  const int from = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
  if (from < 0) fail(path, errno);
  file_ = ::memfd_create("modelbuild", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  try {
    if (file_ < 0) fail(path, errno);
    fill(path, from);
  } catch (...) {
    ::close(from);
    if (file_ >= 0) ::close(file_);
    throw;
  }
  ::close(from);
}

// Copies, seals, and then hashes the copy.
void MemoryCopy::fill(const std::filesystem::path& path, int from) {
  struct stat status{};
  if (::fstat(from, &status) != 0) fail(path, errno);
  if (!S_ISREG(status.st_mode)) fail(path, S_ISDIR(status.st_mode) ? EISDIR : ENODEV);
  // Uses read() instead of a mapping, because a mapping ends the process if the file is truncated meanwhile.
  constexpr std::size_t kChunk = 1 << 20;
  const auto chunk = std::make_unique<char[]>(kChunk);
  std::size_t size = 0;
  while (true) {
    const ssize_t count = ::read(from, chunk.get(), kChunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, errno);
    if (count == 0) break;
    for (ssize_t done = 0; done < count;) {
      const ssize_t written = ::write(file_, chunk.get() + done, static_cast<std::size_t>(count - done));
      if (written < 0 && errno != EINTR) fail(path, errno);
      done += written < 0 ? 0 : written;
    }
    size += static_cast<std::size_t>(count);
  }
  if (::fcntl(file_, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail(path, errno);
  if (size == 0) {
    digest_ = sha256({});
    return;
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_, 0);
  if (data == MAP_FAILED) fail(path, errno);
  digest_ = sha256({static_cast<const std::uint8_t*>(data), size});
  ::munmap(data, size);
}

MemoryCopy::~MemoryCopy() {
  if (file_ >= 0) ::close(file_);
}

MemoryCopy::MemoryCopy(MemoryCopy&& other) noexcept : file_(std::exchange(other.file_, -1)), digest_(other.digest_) {}

std::string MemoryCopy::path() const { return "/proc/self/fd/" + std::to_string(file_); }

}  // namespace modelbuild
