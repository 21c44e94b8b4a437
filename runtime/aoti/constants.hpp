// Constants of the compiled parts of a loaded program: equal ones are in memory once, and the buffers that methods of
// one module change are one state.
//
// The program's named data has a list for each part: a line for each constant, with its name in the library, "cuda" or
// "cpu", ExecuTorch's number of its element type, its sizes and strides (separated by commas; "-" for none), its offset
// in its storage, the key of the storage's bytes, and the qualified name of a buffer that the part changes, or "-".
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/named_data_map.h>

#include <memory>
#include <string>
#include <vector>

#include "shims.hpp"

namespace modelbuild::aoti {

using executorch::runtime::Error;
using executorch::runtime::NamedDataMap;

struct DeleteTensor {
  void operator()(AotiTensor* tensor) const { aoti_torch_delete_tensor_object(tensor); }
};
using OwnedTensor = std::unique_ptr<AotiTensor, DeleteTensor>;

// The loaded program that a part belongs to, and the module of its method. Both are unknown to other runtimes.
struct Owner {
  int program = 0;  // 0: unknown
  int module = 0;
};

// Returns a program's data. ExecuTorch is compiled with libstdc++, whose std::string_view begins with the length; that
// of libc++, which compiles this library, begins with the address.
executorch::runtime::Result<executorch::runtime::FreeableBuffer> get_data(const NamedDataMap& data,
                                                                          const std::string& key);

// Memory with the bytes of a constant, on a GPU or the CPU.
class Memory;

class Constants {
 public:
  // Logs the reason of a failure, after `name`, to ExecuTorch's log.
  static Error load(const std::string& key, const NamedDataMap& data, int device, const Owner& owner,
                    const std::string& name, std::unique_ptr<Constants>* constants);
  ~Constants();
  Constants(const Constants&) = delete;
  Constants& operator=(const Constants&) = delete;

  std::vector<NamedTensor> tensors() const;  // valid as long as this object

 private:
  Constants() = default;
  Error add(const std::string& line, const NamedDataMap& data, int device, const Owner& owner, const std::string& name);

  struct Constant {
    std::string name;
    std::shared_ptr<Memory> memory;
    OwnedTensor tensor;
  };
  std::vector<Constant> constants_;
};

}  // namespace modelbuild::aoti
