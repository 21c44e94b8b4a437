#include "outputs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "api/runtime.hpp"

namespace modelbuild {
namespace {

[[noreturn]] void fail(const std::string& place, int problem) {
  throw Error(Error::Kind::kProgram, place + ": cannot be written: " + std::strerror(problem));
}

// Returns 0, or the number of the error.
int write_all(int file, const std::string& content) {
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t count = ::write(file, content.data() + at, content.size() - at);
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) at += static_cast<std::size_t>(count);
  }
  return 0;
}

}  // namespace

void prepare_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // The lowest free number is a closed stream's. A file that is only read leaves writes an error.
  for (int file = ::open("/dev/null", O_RDONLY); file >= 0; file = ::open("/dev/null", O_RDONLY)) {
    if (file <= STDERR_FILENO) continue;
    ::close(file);
    return;
  }
}

void print(const std::string& text) {
  if (const int problem = write_all(STDOUT_FILENO, text); problem != 0) fail("standard output", problem);
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);  // a pipe or a device: there is nothing to keep
    if (file < 0) fail(path.string(), errno);
    const int problem = write_all(file, content);
    if (::close(file) != 0 || problem != 0) fail(path.string(), problem != 0 ? problem : errno);
    return;
  }
  const std::string beside = path.string() + "." + std::to_string(::getpid()) + ".part";
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) fail(path.string(), errno);
  int problem = write_all(file, content);
  if (::close(file) != 0 && problem == 0) problem = errno;
  if (problem == 0 && ::rename(beside.c_str(), path.c_str()) != 0) problem = errno;
  if (problem == 0) return;
  ::unlink(beside.c_str());
  fail(path.string(), problem);
}

std::string file_name(std::string output) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || std::strchr("_.+-", c) != nullptr; };
  std::replace_if(output.begin(), output.end(), [&](unsigned char c) { return c == 0 || !plain(c); }, '_');
  return output + ".npy";
}

}  // namespace modelbuild
