// Runs a fuzz target without libFuzzer, whose interface the targets have: fuzz_X RUNS SEED LAST FILE... The file LAST
// holds the bytes of the last run, for the one that did not end. A run of more than 20 seconds ends the process.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "mutate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Written to memory: a system call for each run would take longer than most runs.
class Last {
 public:
  explicit Last(const char* path) : file_(::open(path, O_RDWR | O_CREAT | O_TRUNC, 0644)) {}
  void keep(const Bytes& bytes) {
    if (bytes.size() != size_) {
      if (at_ != MAP_FAILED) ::munmap(at_, size_);
      size_ = bytes.size();
      at_ = ::ftruncate(file_, static_cast<off_t>(size_)) == 0 && size_ != 0
                ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)
                : MAP_FAILED;
    }
    if (at_ != MAP_FAILED) std::memcpy(at_, bytes.data(), size_);
  }

 private:
  int file_;
  std::size_t size_ = 0;
  void* at_ = MAP_FAILED;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return std::fprintf(stderr, "usage: %s RUNS SEED LAST FILE...\n", arguments[0]), 2;
  const long runs = std::atol(arguments[1]);
  Random random(static_cast<std::uint64_t>(std::atol(arguments[2])));
  Last last(arguments[3]);
  std::vector<Bytes> files;
  for (int i = 4; i < count; ++i) files.push_back(read_bytes(arguments[i]));
  for (const Bytes& whole : files) LLVMFuzzerTestOneInput(whole.data(), whole.size());
  for (long run = 0; run < runs; ++run) {
    const Bytes bytes = damaged(files[random() % files.size()], &random);
    last.keep(bytes);
    ::alarm(20);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%ld runs\n", runs);
  return 0;
}
