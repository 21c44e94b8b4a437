// Reads flatbuffers without generated code, checking every offset: tables, vectors and strings by field number.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace modelbuild::flatbuffer {

using Bytes = std::span<const std::uint8_t>;

// Thrown for bytes that are not a flatbuffer of the expected kind.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void malformed(const std::string& message) { throw Malformed(message); }

// Returns a number that must be less than a count of things.
inline std::size_t index(std::int64_t number, std::size_t count, const char* thing) {
  if (number < 0 || static_cast<std::uint64_t>(number) >= count) {
    malformed(std::string("it names ") + thing + " " + std::to_string(number) + " of " + std::to_string(count));
  }
  return static_cast<std::size_t>(number);
}

template <typename T>
T read(Bytes data, std::uint64_t at) {
  if (at > data.size() || data.size() - at < sizeof(T)) {
    throw Malformed("an offset points to byte " + std::to_string(at) + " of " + std::to_string(data.size()));
  }
  T value;
  std::memcpy(&value, data.data() + at, sizeof(T));
  return value;
}

// The bytes of a flatbuffer, which must outlive its tables. Tables can share bytes, so a small file can describe an
// endless tree. The bytes read are counted, and limited to kMost times the file's.
class Buffer {
 public:
  explicit Buffer(Bytes data) : data_(data), left_(kMost * (data.size() + 1024)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Bytes data() const { return data_; }

  void count(std::uint64_t bytes) const {
    if (bytes > left_) throw Malformed("its tables share their parts again and again");
    left_ -= bytes;
  }

 private:
  static constexpr std::uint64_t kMost = 32;  // programs are read less than 3 times
  Bytes data_;
  mutable std::uint64_t left_;
};

// A table. Field numbers are positions in the schema, counted from 0.
class Table {
 public:
  static Table root(const Buffer& buffer) { return Table(&buffer, read<std::uint32_t>(buffer.data(), 0)); }

  // Returns a field's value, or zero if it is absent.
  template <typename T>
  T scalar(int number) const {
    const std::uint64_t at = field(number);
    return at != 0 ? read<T>(data(), at) : T{};
  }

  bool has(int number) const { return field(number) != 0; }

  Table table(int number) const {
    const std::uint64_t at = field(number);
    if (at == 0) throw Malformed("a table lacks its field " + std::to_string(number));
    return follow(at);
  }

  // Returns a string; "" if it is absent.
  std::string_view string(int number) const {
    const auto [start, count] = vector(number, 1);
    if (start != 0 && read<char>(data(), start + count) != '\0') throw Malformed("a string has no end");
    buffer_->count(count);
    return {reinterpret_cast<const char*>(data().data()) + start, count};
  }

  // Returns a string that will be copied, so its length is limited. ExecuTorch reads a name up to its first NUL, so
  // that a name with one would be another name there.
  std::string name(int number) const {
    const std::string_view found = string(number);
    if (found.size() > kLongest) throw Malformed("a name has " + std::to_string(found.size()) + " characters");
    if (found.find('\0') != std::string_view::npos) throw Malformed("a name contains a NUL");
    return std::string(found);
  }

  std::uint32_t length(int number) const { return vector(number, 1).second; }

  template <typename T>
  std::vector<T> scalars(int number) const {
    const auto [start, count] = vector(number, sizeof(T));
    buffer_->count(count * sizeof(T));
    std::vector<T> values(count);
    if (count != 0) std::memcpy(values.data(), data().data() + start, count * sizeof(T));
    return values;
  }

  // Returns a vector of bytes, in place.
  Bytes bytes(int number) const {
    const auto [start, count] = vector(number, 1);
    return data().subspan(start, count);
  }

  std::vector<Table> tables(int number) const {
    const auto [start, count] = vector(number, 4);
    buffer_->count(count * sizeof(Table));
    std::vector<Table> found;
    found.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) found.push_back(follow(start + 4ULL * i));
    return found;
  }

 private:
  Table(const Buffer* buffer, std::uint64_t at) : buffer_(buffer), at_(at) {
    buffer_->count(sizeof(std::uint32_t));
    const auto vtable = static_cast<std::int64_t>(at) - read<std::int32_t>(data(), at);
    if (vtable < 0) throw Malformed("a table at byte " + std::to_string(at) + " has its vtable before the data");
    vtable_ = static_cast<std::uint64_t>(vtable);
    const auto size = read<std::uint16_t>(data(), vtable_);
    fields_ = size < 4 ? 0 : (size - 4) / 2;
  }

  Bytes data() const { return buffer_->data(); }

  Table follow(std::uint64_t at) const { return Table(buffer_, at + read<std::uint32_t>(data(), at)); }

  // Returns a field's offset, or 0 if it is absent.
  std::uint64_t field(int number) const {
    if (number >= fields_) return 0;
    const auto offset = read<std::uint16_t>(data(), vtable_ + 4 + 2 * static_cast<std::uint64_t>(number));
    return offset == 0 ? 0 : at_ + offset;
  }

  // Returns the offset (0 if absent) and the number of a vector's or string's elements.
  std::pair<std::uint64_t, std::uint32_t> vector(int number, std::uint64_t size) const {
    std::uint64_t at = field(number);
    if (at == 0) return {0, 0};
    at += read<std::uint32_t>(data(), at);
    const auto count = read<std::uint32_t>(data(), at);
    if (count * size > data().size() - at - 4) {
      throw Malformed("a vector at byte " + std::to_string(at) + " claims " + std::to_string(count) + " elements");
    }
    return {at + 4, count};
  }

  static constexpr std::size_t kLongest = 4096;
  const Buffer* buffer_;
  std::uint64_t at_;
  std::uint64_t vtable_ = 0;
  int fields_ = 0;
};

}  // namespace modelbuild::flatbuffer
