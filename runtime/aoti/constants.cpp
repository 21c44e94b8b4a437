#include "constants.hpp"

#include <executorch/runtime/platform/log.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "device.hpp"

namespace modelbuild::aoti {

class Memory {
 public:
  // `device` is a GPU; empty for host memory.
  Memory(std::optional<int> device, std::size_t size) : size(size), device_(device) {}
  ~Memory() {
    if (!device_) return;
    const cuda::DeviceGuard guard(*device_);
    cudaFree(address_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Error fill(const void* bytes) {
    if (!device_) {
      host_.assign(static_cast<const char*>(bytes), static_cast<const char*>(bytes) + size);
      return Error::Ok;
    }
    if (size == 0) return Error::Ok;
    const cuda::DeviceGuard guard(*device_);
    MB_CUDA("constants", guard.error());
    MB_CUDA("constants", cudaMalloc(&address_, size));
    MB_CUDA("constants", cudaMemcpy(address_, bytes, size, cudaMemcpyHostToDevice));
    return Error::Ok;
  }
  void* address() { return device_ ? address_ : host_.data(); }

  const std::size_t size;

 private:
  std::optional<int> device_;
  void* address_ = nullptr;
  std::vector<char> host_;
};

namespace {

// Whose memory it is, the GPU, and a buffer's name or the key of a constant's bytes.
struct Key {
  int program;
  std::optional<int> module;  // for a buffer that is changed
  std::optional<int> device;
  std::string name;
  auto operator<=>(const Key&) const = default;
};

// Returns the memory of a key, which its holders share. The first one fills it.
Error find_or_fill(const Key& key, const void* bytes, std::size_t size, std::shared_ptr<Memory>* found) {
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<Memory>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(known, [](const auto& each) { return each.second.expired(); });
  if (const auto place = known.find(key); place != known.end()) {
    *found = place->second.lock();
    return Error::Ok;
  }
  *found = std::make_shared<Memory>(key.device, size);
  if (const Error error = (*found)->fill(bytes); error != Error::Ok) return error;
  if (key.program != 0) known[key] = *found;
  return Error::Ok;
}

bool read_numbers(const std::string& text, std::vector<std::int64_t>* numbers) {
  if (text == "-") return true;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number < 0) return false;
    numbers->push_back(number);
  }
  return true;
}

// A line of the list.
struct Line {
  std::string name;
  bool on_gpu = false;
  std::int32_t dtype = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  std::string key;
  std::string state;
};

bool read_line(const std::string& text, Line* line) {
  std::istringstream words(text);
  std::string place;
  std::string sizes;
  std::string strides;
  words >> line->name >> place >> line->dtype >> sizes >> strides >> line->offset >> line->key >> line->state;
  line->on_gpu = place == "cuda";
  return !words.fail() && (line->on_gpu || place == "cpu") && line->offset >= 0 && read_numbers(sizes, &line->sizes) &&
         read_numbers(strides, &line->strides) && line->sizes.size() == line->strides.size();
}

}  // namespace

executorch::runtime::Result<executorch::runtime::FreeableBuffer> get_data(const NamedDataMap& data,
                                                                          const std::string& key) {
#ifdef _LIBCPP_VERSION
  const std::array words{key.size(), reinterpret_cast<std::uintptr_t>(key.data())};
  return data.get_data(std::bit_cast<std::string_view>(words));
#else
  return data.get_data(key);
#endif
}

Constants::~Constants() = default;

Error Constants::load(const std::string& key, const NamedDataMap& data, int device, const Owner& owner,
                      const std::string& name, std::unique_ptr<Constants>* result) {
  auto list = get_data(data, key);
  if (!list.ok()) {
    ET_LOG(Error, "%s: the program has no data '%s'", name.c_str(), key.c_str());
    return Error::InvalidProgram;
  }
  std::istringstream lines(std::string(static_cast<const char*>(list->data()), list->size()));
  std::unique_ptr<Constants> made(new Constants());
  for (std::string line; std::getline(lines, line);) {
    if (const Error error = made->add(line, data, device, owner, name); error != Error::Ok) return error;
  }
  *result = std::move(made);
  return Error::Ok;
}

Error Constants::add(const std::string& text, const NamedDataMap& data, int device, const Owner& owner,
                     const std::string& name) {
  Line line;
  if (!read_line(text, &line)) {
    ET_LOG(Error, "%s: its list of constants is damaged: '%s'", name.c_str(), text.c_str());
    return Error::InvalidProgram;
  }
  const bool changed = line.state != "-";
  if (changed && owner.program == 0) {
    ET_LOG(Error, "%s: it changes the buffer '%s' in common with other methods, and this runtime does not name them",
           name.c_str(), line.state.c_str());
    return Error::NotSupported;
  }
  auto bytes = get_data(data, line.key);
  if (!bytes.ok()) {
    ET_LOG(Error, "%s: neither the program nor its .ptd, if any, has the data '%s'", name.c_str(), line.key.c_str());
    return Error::InvalidExternalData;
  }
  const Key key{owner.program, changed ? std::optional(owner.module) : std::nullopt,
                line.on_gpu ? std::optional(device) : std::nullopt, changed ? line.state : line.key};
  std::shared_ptr<Memory> memory;
  if (const Error error = find_or_fill(key, bytes->data(), bytes->size(), &memory); error != Error::Ok) return error;
  if (memory->size != bytes->size()) {
    ET_LOG(Error, "%s: the buffer '%s' has %zu bytes, and %zu in another method", name.c_str(), line.state.c_str(),
           bytes->size(), memory->size);
    return Error::InvalidProgram;
  }
  bytes->Free();
  AotiTensor* tensor = nullptr;
  const std::int32_t kind = line.on_gpu ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu();
  if (aoti_torch_create_tensor_from_blob_v2(memory->address(), static_cast<std::int64_t>(line.sizes.size()),
                                            line.sizes.data(), line.strides.data(), line.offset, line.dtype, kind,
                                            line.on_gpu ? device : 0, &tensor, 0, nullptr, 0) != 0) {
    ET_LOG(Error, "%s: its constant %s has an element type that the CUDA delegate lacks", name.c_str(),
           line.name.c_str());
    return Error::InvalidType;
  }
  constants_.push_back({line.name, std::move(memory), OwnedTensor(tensor)});
  return Error::Ok;
}

std::vector<NamedTensor> Constants::tensors() const {
  std::vector<NamedTensor> found;
  found.reserve(constants_.size());
  for (const Constant& each : constants_) found.push_back({each.name.c_str(), each.tensor.get()});
  return found;
}

}  // namespace modelbuild::aoti
