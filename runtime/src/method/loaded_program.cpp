#include "method/loaded_program.hpp"

#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/runtime/platform/log.h>

#include <set>
#include <string_view>
#include <utility>

#include "api/fail.hpp"
#include "api/log.hpp"
#include "method/error_text.hpp"

namespace modelbuild {
namespace {

namespace ee = executorch::extension;
namespace er = executorch::runtime;

// The data of several files. It passes keys on without reading them, because ExecuTorch's std::string_view may have
// another layout than this library's.
class DataFiles final : public er::NamedDataMap {
 public:
  // Returns InvalidArgument if two files have data of the same name.
  er::Error add(ee::FlatTensorDataMap file) {
    const auto count = file.get_num_keys();
    if (!count.ok()) return count.error();
    for (std::uint32_t i = 0; i < *count; ++i) {
      const auto key = file.get_key(i);
      if (!key.ok()) return key.error();
      if (!keys_.insert(*key).second) {
        ET_LOG(Error, "the data '%s' are in two files", *key);
        return er::Error::InvalidArgument;
      }
    }
    files_.push_back(std::make_unique<ee::FlatTensorDataMap>(std::move(file)));
    return er::Error::Ok;
  }

  er::Result<const er::TensorLayout> get_tensor_layout(std::string_view key) const override {
    for (const auto& file : files_) {
      // Called twice, because a Result of a const type cannot be moved.
      if (file->get_tensor_layout(key).error() != er::Error::NotFound) return file->get_tensor_layout(key);
    }
    return er::Error::NotFound;
  }

  er::Result<er::FreeableBuffer> get_data(std::string_view key) const override {
    for (const auto& file : files_) {
      auto found = file->get_data(key);
      if (found.error() != er::Error::NotFound) return found;
    }
    return er::Error::NotFound;
  }

  er::Error load_data_into(std::string_view key, void* buffer, std::size_t size) const override {
    for (const auto& file : files_) {
      const er::Error found = file->load_data_into(key, buffer, size);
      if (found != er::Error::NotFound) return found;
    }
    return er::Error::NotFound;
  }

  er::Result<std::uint32_t> get_num_keys() const override { return static_cast<std::uint32_t>(keys_.size()); }

  er::Result<const char*> get_key(std::uint32_t index) const override {
    for (const auto& file : files_) {
      const std::uint32_t count = *file->get_num_keys();
      if (index < count) return file->get_key(index);
      index -= count;
    }
    return er::Error::InvalidArgument;
  }

 private:
  std::vector<std::unique_ptr<er::NamedDataMap>> files_;
  std::set<std::string> keys_;
};

}  // namespace

LoadedProgram::LoadedProgram(const std::filesystem::path& pte, const std::vector<std::filesystem::path>& data,
                             const std::string& path) {
  forget_error();
  const auto check = [&](er::Error error) {
    if (error != er::Error::Ok) fail_program(path + ": could not be loaded: " + error_text(error) + error_since());
  };
  const auto open = [&](const std::filesystem::path& file) {
    auto opened = ee::MmapDataLoader::from(file.c_str(), ee::MmapDataLoader::MlockConfig::NoMlock);
    check(opened.error());
    return files_.emplace_back(std::make_unique<ee::MmapDataLoader>(std::move(*opened))).get();
  };
  if (!data.empty()) {
    auto maps = std::make_unique<DataFiles>();
    for (const std::filesystem::path& file : data) {
      auto map = ee::FlatTensorDataMap::load(open(file));
      check(map.error());
      check(maps->add(std::move(*map)));
    }
    data_ = std::move(maps);
  }
  auto program = er::Program::load(open(pte), er::Program::Verification::InternalConsistency);
  check(program.error());
  program_.emplace(std::move(*program));
}

}  // namespace modelbuild
