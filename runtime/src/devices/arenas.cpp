#include "devices/arenas.hpp"

#include "devices/device_services.hpp"

namespace modelbuild {
namespace {

namespace er = executorch::runtime;

void check_device(int index, const std::string& program) {
  const std::string wanted = program + ": its activations lie on cuda:" + std::to_string(index);
  DeviceServices* services = device_services();
  if (services == nullptr) throw Error(Error::Kind::kProgram, wanted + ", but no CUDA delegate is loaded");
  const int count = services->device_count();
  if (index >= count) {
    throw Error(Error::Kind::kProgram,
                wanted + ", but this machine has " + std::to_string(count) + " CUDA device" + (count == 1 ? "" : "s"));
  }
}

// The index of the arena of buffers that a method changes, which executorch numbers 2.
constexpr std::size_t kState = 1;

std::uint8_t* state(SharedState* shared, std::size_t bytes, const std::string& program) {
  if (shared->memory == nullptr) {
    check_host_memory(bytes, program);
    shared->memory = std::make_unique<HostBuffer>(bytes, program);
    shared->bytes = bytes;
  }
  if (bytes > shared->bytes) {
    throw Error(Error::Kind::kProgram, program + ": its methods have states of different sizes");
  }
  return shared->memory->data();
}

}  // namespace

Arenas::Arenas(const er::MethodMeta& meta, const std::string& program, SharedState* shared) {
  std::uint64_t on_host = 0;
  for (std::size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    const auto size = meta.memory_planned_buffer_size(i);
    const auto device = meta.memory_planned_buffer_device(i);
    if (!size.ok() || *size < 0 || !device.ok()) {
      throw Error(Error::Kind::kProgram, program + ": its plan of memory is damaged");
    }
    const auto bytes = static_cast<std::size_t>(*size);
    std::uint8_t* start = nullptr;
    if (device->is_cpu() && shared != nullptr && i == kState) {
      start = state(shared, bytes, program);
    } else if (device->is_cpu()) {
      on_host += bytes;
      check_host_memory(on_host, program);
      host_.emplace_back(bytes, program);
      start = host_.back().data();
    } else {
      check_device(device->index(), program);
      device_.emplace_back(device->index(), bytes);
      start = static_cast<std::uint8_t*>(device_.back().data());
    }
    spans_.emplace_back(start, bytes);
    devices_.push_back(*device);
  }
  allocator_ = std::make_unique<er::HierarchicalAllocator>(
      er::Span<er::Span<std::uint8_t>>(spans_.data(), spans_.size()),
      er::Span<const er::etensor::Device>(devices_.data(), devices_.size()));
}

}  // namespace modelbuild
