// damage_check RUNS SEED PROGRAM.pte [DATA.ptd]: loads the program, which ends with a manifest, and then RUNS damaged
// copies of it or of its data. Prints how often each refusal was met, and how many copies were loaded all the same.
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "api/runtime.hpp"
#include "memory_file.hpp"
#include "mutate.hpp"

using modelbuild::Error;
using modelbuild::Program;

namespace {

// A copy that has lost both marks of a manifest is taken for a file that never had one.
bool unmarked(const Bytes& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.find("modelbuild.manifest") == std::string_view::npos && !text.ends_with("mbmanif1");
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  modelbuild::set_log(modelbuild::LogLevel::kOff);
  const long runs = std::atol(arguments[1]);
  Random random(static_cast<std::uint64_t>(std::atol(arguments[2])));
  std::vector<Bytes> whole;
  std::vector<MemoryFile> files(static_cast<std::size_t>(count - 3));
  std::vector<std::string> paths;
  for (int i = 3; i < count; ++i) {
    whole.push_back(read_bytes(arguments[i]));
    paths.push_back(files[paths.size()].write(whole.back().data(), whole.back().size()));
  }
  const auto load = [&] { Program::load(paths[0], {{paths.begin() + 1, paths.end()}, {}, {}}); };
  load();
  long loaded = 0;
  std::map<std::string, long> refusals;
  for (long run = 0; run < runs; ++run) {
    const std::size_t which = random() % whole.size();
    Bytes bytes;
    do bytes = damaged(whole[which], &random);
    while (unmarked(bytes));
    files[which].write(bytes.data(), bytes.size());
    ::alarm(20);
    try {
      load();
      ++loaded;
    } catch (const Error& error) {
      const std::string text(error.what());
      ++refusals[text.substr(0, text.find(": ", text.find(": ") + 2))];
      if (error.kind() != Error::Kind::kProgram || text.find('\n') != std::string::npos) ++refusals["wrong"];
    }
    files[which].write(whole[which].data(), whole[which].size());
  }
  for (const auto& [text, number] : refusals) std::printf("%ld %s\n", number, text.c_str());
  std::printf("%ld of %ld were loaded\n", loaded, runs);
  return 0;
}
