// A program's files, opened by ExecuTorch. The methods are loaded one by one: loaded_method.hpp.
#pragma once

#include <executorch/extension/data_loader/mmap_data_loader.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/executor/program.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace modelbuild {

// Must outlive its methods, whose constants lie in its files.
class LoadedProgram {
 public:
  // Maps the files into memory. Throws Error, which begins with `path`.
  LoadedProgram(const std::filesystem::path& pte, const std::vector<std::filesystem::path>& data,
                const std::string& path);

  const executorch::runtime::Program& program() const { return *program_; }
  const executorch::runtime::NamedDataMap* data() const { return data_.get(); }  // nullptr without .ptd files

 private:
  std::vector<std::unique_ptr<executorch::extension::MmapDataLoader>> files_;
  std::unique_ptr<executorch::runtime::NamedDataMap> data_;
  std::optional<executorch::runtime::Program> program_;
};

}  // namespace modelbuild
