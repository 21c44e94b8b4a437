#include "messages.hpp"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <exception>

namespace modelbuild::tensorrt {

std::string Messages::take_error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_error = [](const auto& each) { return each.first == MB_TRT_ERROR; };
  const auto first = std::find_if(kept_.begin(), kept_.end(), is_error);
  std::string text = first == kept_.end() ? "" : first->second;
  std::erase_if(kept_, is_error);
  return text;
}

void Messages::flush(const std::string& name) {
  std::vector<std::pair<mb_trt_severity, std::string>> messages;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    messages.swap(kept_);
  }
  for (const auto& [severity, text] : messages) {
    if (severity == MB_TRT_ERROR) {
      ET_LOG(Error, "%s: TensorRT: %s", name.c_str(), text.c_str());
    } else {
      ET_LOG(Info, "%s: TensorRT warning: %s", name.c_str(), text.c_str());
    }
  }
}

void Messages::write(void* user, mb_trt_severity severity, const char* message) noexcept {
  if (severity == MB_TRT_INFO || message == nullptr) return;
  auto& own = *static_cast<Messages*>(user);
  try {
    std::string line(message);
    line.erase(line.find_last_not_of(" \n\r") + 1);
    std::replace(line.begin(), line.end(), '\n', ' ');
    const std::lock_guard<std::mutex> lock(own.mutex_);
    own.kept_.emplace_back(severity, std::move(line));
  } catch (const std::exception&) {
    return;  // out of memory: a message less
  }
}

}  // namespace modelbuild::tensorrt
