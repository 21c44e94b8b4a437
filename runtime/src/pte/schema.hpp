// The fields of tables of a .pte and a .ptd, by their positions, and the members of enums and unions.
// Written by tools/program_schema.py.
#pragma once

namespace modelbuild::schema {

struct TensorShapeDynamism {
  enum : int { kStatic = 0, kDynamicBound = 1, kDynamicUnbound = 2 };
};
struct TensorDataLocation {
  enum : int { kSegment = 0, kExternal = 1 };
};
struct DeviceType {
  enum : int { kCpu = 0, kCuda = 1 };
};
struct KernelTypes {
  enum : int {
    kNull = 1,
    kInt = 2,
    kBool = 3,
    kDouble = 4,
    kTensor = 5,
    kString = 6,
    kIntList = 7,
    kDoubleList = 8,
    kBoolList = 9,
    kTensorList = 10,
    kOptionalTensorList = 11
  };
};
struct InstructionArguments {
  enum : int { kKernelCall = 1, kDelegateCall = 2, kMoveCall = 3, kJumpFalseCall = 4, kFreeCall = 5 };
};
struct DataLocation {
  enum : int { kInline = 0, kSegment = 1 };
};
struct ContainerMetadata {
  enum : int { kEncodedInpStr, kEncodedOutStr };
};
struct AllocationDetails {
  enum : int { kMemoryId, kMemoryOffsetLow, kMemoryOffsetHigh };
};
struct ExtraTensorInfo {
  enum : int { kMutableDataSegmentsIdx, kFullyQualifiedName, kLocation, kDeviceType, kDeviceIndex };
};
struct Tensor {
  enum : int {
    kScalarType,
    kStorageOffset,
    kSizes,
    kDimOrder,
    kRequiresGrad,
    kDataBufferIdx,
    kAllocationInfo,
    kLayout,
    kShapeDynamism,
    kExtraTensorInfo
  };
};
struct Int {
  enum : int { kIntVal };
};
struct Bool {
  enum : int { kBoolVal };
};
struct Double {
  enum : int { kDoubleVal };
};
struct String {
  enum : int { kStringVal };
};
struct IntList {
  enum : int { kItems };
};
struct DoubleList {
  enum : int { kItems };
};
struct BoolList {
  enum : int { kItems };
};
struct TensorList {
  enum : int { kItems };
};
struct OptionalTensorList {
  enum : int { kItems };
};
struct EValue {
  enum : int { kValType, kVal };
};
struct Operator {
  enum : int { kName, kOverload };
};
struct KernelCall {
  enum : int { kOpIndex, kArgs };
};
struct DelegateCall {
  enum : int { kDelegateIndex, kArgs };
};
struct MoveCall {
  enum : int { kMoveFrom, kMoveTo };
};
struct JumpFalseCall {
  enum : int { kCondValueIndex, kDestinationInstruction };
};
struct FreeCall {
  enum : int { kValueIndex };
};
struct Instruction {
  enum : int { kInstrArgsType, kInstrArgs };
};
struct Frame {
  enum : int { kFilename, kLineno, kName, kContext };
};
struct FrameList {
  enum : int { kItems };
};
struct BackendDelegateDataReference {
  enum : int { kLocation, kIndex };
};
struct CompileSpec {
  enum : int { kKey, kValue };
};
struct BackendDelegate {
  enum : int { kId, kProcessed, kCompileSpecs };
};
struct Chain {
  enum : int { kInputs, kOutputs, kInstructions, kStacktrace };
};
struct ExecutionPlan {
  enum : int {
    kName,
    kContainerMetaType,
    kValues,
    kInputs,
    kOutputs,
    kChains,
    kOperators,
    kDelegates,
    kNonConstBufferSizes,
    kNonConstBufferDevice
  };
};
struct NonConstBufferDevice {
  enum : int { kBufferIdx, kDeviceType, kDeviceIndex };
};
struct Buffer {
  enum : int { kStorage };
};
struct BackendDelegateInlineData {
  enum : int { kData };
};
struct DataSegment {
  enum : int { kOffset, kSize };
};
struct SubsegmentOffsets {
  enum : int { kSegmentIndex, kOffsets };
};
struct NamedData {
  enum : int { kKey, kSegmentIndex };
};
struct Program {
  enum : int {
    kVersion,
    kExecutionPlan,
    kConstantBuffer,
    kBackendDelegateData,
    kSegments,
    kConstantSegment,
    kMutableDataSegments,
    kNamedData
  };
};
struct PtdTensorLayout {
  enum : int { kScalarType, kSizes, kDimOrder };
};
struct PtdDataSegment {
  enum : int { kOffset, kSize };
};
struct PtdNamedData {
  enum : int { kKey, kSegmentIndex, kTensorLayout };
};
struct PtdFlatTensor {
  enum : int { kVersion, kSegments, kNamedData };
};

}  // namespace modelbuild::schema
