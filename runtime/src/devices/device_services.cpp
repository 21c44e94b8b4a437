#include "devices/device_services.hpp"

#include <atomic>
#include <cstring>

namespace modelbuild {
namespace {
std::atomic<DeviceServices*> current{nullptr};
}  // namespace

void provide_device_services(DeviceServices* services) { current = services; }
DeviceServices* device_services() { return current; }

DeviceServices& require_device_services() {
  DeviceServices* services = current;
  if (services == nullptr) {
    throw Error(Error::Kind::kProgram, "device memory is asked for, but no CUDA delegate is loaded");
  }
  return *services;
}

DeviceBuffer::DeviceBuffer(int device, std::size_t bytes)
    : device_(device), data_(require_device_services().allocate(device, bytes)) {}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) device_services()->release(device_, data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}

void DeviceBuffer::write(const void* host, std::size_t bytes) { device_services()->copy(data_, host, bytes, device_); }

void DeviceBuffer::read(void* host, std::size_t bytes) const { device_services()->copy(host, data_, bytes, device_); }

void copy_to_host(const Tensor& tensor, void* host) {
  if (tensor.nbytes() == 0) return;
  if (tensor.device.cuda) {
    require_device_services().copy(host, tensor.data, tensor.nbytes(), tensor.device.index);
  } else {
    std::memcpy(host, tensor.data, tensor.nbytes());
  }
}

}  // namespace modelbuild
