// Stand-ins for TensorRT's public types, written for tests: only what flavours use, with the same layout. STANDIN_MAJOR
// is the major version: 8, 10 or 11 (also for TensorRT-RTX 1).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace nvinfer1 {

class ICudaEngine;
class IExecutionContext;

enum class DataType : std::int32_t { kFLOAT, kHALF, kINT8, kINT32, kBOOL, kUINT8, kFP8, kBF16, kINT64 };
enum class TensorIOMode : std::int32_t { kNONE, kINPUT, kOUTPUT };
enum class TensorLocation : std::int32_t { kDEVICE, kHOST };
enum class TensorFormat : std::int32_t { kLINEAR, kCHW2, kHWC8 };
enum class OptProfileSelector : std::int32_t { kMIN, kOPT, kMAX };
enum class ExecutionContextAllocationStrategy : std::int32_t { kSTATIC };

struct Dims {
  std::int32_t nbDims;
#if STANDIN_MAJOR == 8
  std::int32_t d[8];
#else
  std::int64_t d[8];
#endif
};

#if STANDIN_MAJOR >= 11
struct InterfaceInfo {
  const char* kind;
  std::int32_t major;
  std::int32_t minor;
};
enum class APILanguage : std::int32_t { kCPP, kPYTHON };
class IVersionedInterface {
 public:
  virtual APILanguage getAPILanguage() const noexcept { return APILanguage::kCPP; }
  virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;
  virtual ~IVersionedInterface() noexcept = default;
};
class ILogger : public IVersionedInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"ILogger", 1, 0}; }
#else
class ILogger {
 public:
#endif
  enum class Severity : std::int32_t { kINTERNAL_ERROR, kERROR, kWARNING, kINFO, kVERBOSE };
  virtual void log(Severity severity, const char* message) noexcept = 0;
#if STANDIN_MAJOR < 11
  virtual ~ILogger() = default;
#endif
};

class INoCopy {
 public:
  virtual ~INoCopy() = default;
};

}  // namespace nvinfer1
