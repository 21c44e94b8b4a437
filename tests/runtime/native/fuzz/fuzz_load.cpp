// Everything from a file to methods that are ready to run, on any bytes, as for a program without a manifest: nobody
// vouches for it. Its delegates are to be such as check their blobs.
#include <list>

#include "api/log.hpp"
#include "delegates/plugins.hpp"
#include "memory_file.hpp"
#include "method/loaded_method.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace modelbuild;
  static MemoryFile file;
  static const LoadOptions plugins{
      .plugin_dirs = {std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../lib"}};
  set_log(LogLevel::kOff);
  try {
    const std::string& path = file.write(data, size);
    const Description program = describe(path, {}, false, plugins.plugin_dirs);
    load_plugins(program, plugins);
    const LoadedProgram loaded(path, {}, path);
    std::list<LoadedMethod> methods;
    for (const MethodDescription& method : program.methods) methods.emplace_back(loaded, method, path, Owner{});
  } catch (const Error&) {
  } catch (const GaveUp&) {
  }
  return 0;
}
