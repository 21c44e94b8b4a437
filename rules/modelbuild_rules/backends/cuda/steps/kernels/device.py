"""GPUs by compute capability: constants that a compiler would otherwise query from the device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import SimpleNamespace

REGISTERS = 65536  # of a multiprocessor
_MIB, _GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """A typical GPU of a compute capability; sizes in bytes.

    capability      as 86
    processors      number of multiprocessors
    shared_memory   maximum per block of threads
    threads         maximum per multiprocessor
    products        multiplications per cycle of a multiprocessor's tensor cores, relative to compute capability 9.0
    clock           cycles per second
    bandwidth       bytes per second between the memory and the multiprocessors
    link            bytes per second between the host's memory and the GPU's
    """

    capability: int
    name: str
    processors: int
    shared_memory: int
    threads: int
    cache: int
    memory: int
    products: float
    clock: float
    bandwidth: float
    link: float

    def properties(self) -> SimpleNamespace:
        """Return the properties in the form of torch.cuda.get_device_properties()."""
        return SimpleNamespace(
            name=self.name,
            major=self.capability // 10,
            minor=self.capability % 10,
            total_memory=self.memory,
            multi_processor_count=self.processors,
            regs_per_multiprocessor=REGISTERS,
            max_threads_per_multi_processor=self.threads,
            max_threads_per_block=1024,
            warp_size=32,
            shared_memory_per_block=48 << 10,
            shared_memory_per_block_optin=self.shared_memory,
            shared_memory_per_multiprocessor=self.shared_memory + 1024,
            L2_cache_size=self.cache,
            is_integrated=0,
            is_multi_gpu_board=0,
            gcnArchName="",
            uuid="00000000-0000-0000-0000-000000000000",
            clock_rate=1,
            memory_clock_rate=1,
            memory_bus_width=1,
        )

    def limits(self) -> dict[str, int]:
        """Return the limits in the form of Triton's driver.utils.get_device_properties()."""
        return {
            "max_shared_mem": self.shared_memory,
            "multiprocessor_count": self.processors,
            "max_num_regs": REGISTERS,
            "warpSize": 32,
            "sm_clock_rate": 1,
            "mem_clock_rate": 1,
            "mem_bus_width": 1,
        }


# Multiprocessors, cache and memory are the named product's; the rest is the same for all GPUs of a capability (CUDA C++
# Programming Guide, "Technical Specifications per Compute Capability"; products of 16 bits from NVIDIA's architecture
# whitepapers: 1,024 a cycle on 8.0, 512 on 8.6 and 8.9, 2,048 on 9.0; clocks and bandwidths from its data sheets. Links
# are PCI Express 4 or 5; for a GPU in the host's memory, half of the memory's bandwidth). Only 9.0 was measured, at a
# clock of 1,755 MHz; 10.0 is assumed to gain nothing, since only other templates use its tensor cores fully.
GPUS = {
    gpu.capability: gpu
    for gpu in (
        Gpu(80, "NVIDIA A100-SXM4-80GB", 108, 163 << 10, 2048, 40 * _MIB, 80 * _GIB, 0.5, 1.41e9, 2039e9, 25e9),
        Gpu(86, "NVIDIA GeForce RTX 3090", 82, 99 << 10, 1536, 6 * _MIB, 24 * _GIB, 0.25, 1.695e9, 936e9, 25e9),
        Gpu(87, "NVIDIA Jetson AGX Orin", 16, 163 << 10, 1536, 4 * _MIB, 32 * _GIB, 0.25, 1.3e9, 205e9, 102e9),
        Gpu(89, "NVIDIA GeForce RTX 4090", 128, 99 << 10, 1536, 72 * _MIB, 24 * _GIB, 0.25, 2.52e9, 1008e9, 25e9),
        Gpu(90, "NVIDIA H100 80GB HBM3", 132, 227 << 10, 2048, 50 * _MIB, 80 * _GIB, 1.0, 1.755e9, 3350e9, 50e9),
        Gpu(100, "NVIDIA B200", 148, 227 << 10, 2048, 126 * _MIB, 180 * _GIB, 1.0, 1.965e9, 8000e9, 50e9),
        Gpu(110, "NVIDIA Jetson AGX Thor", 20, 227 << 10, 1536, 32 * _MIB, 128 * _GIB, 0.5, 1.575e9, 273e9, 136e9),
        Gpu(120, "NVIDIA GeForce RTX 5090", 170, 99 << 10, 1536, 96 * _MIB, 32 * _GIB, 0.25, 2.407e9, 1792e9, 50e9),
        Gpu(121, "NVIDIA GB10", 48, 99 << 10, 1536, 24 * _MIB, 128 * _GIB, 0.25, 2.418e9, 273e9, 136e9),
    )
}


def number(capability: str) -> int:
    """Return a compute capability as a number: 86 for "8.6"."""
    major, minor = capability.split(".")
    return int(major) * 10 + int(minor)


def common_gpu(capabilities: Iterable[int]) -> Gpu:
    """Return the GPU to compile for so that code fits all capabilities: the lowest, with the least shared memory."""
    gpus = [GPUS[capability] for capability in sorted(capabilities)]
    return replace(gpus[0], shared_memory=min(gpu.shared_memory for gpu in gpus))


def registers_allow(registers: int) -> int:
    """Return the maximum number of threads per block for a number of registers per thread."""
    return min(1024, REGISTERS // max(registers, 1) // 32 * 32)
