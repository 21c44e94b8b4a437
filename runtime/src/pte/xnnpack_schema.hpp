// The fields of tables of a blob of XNNPACK, by their positions, and the members of enums and unions.
// Written by tools/program_schema.py.
#pragma once

#include <array>

namespace modelbuild::schema::xnnpack {

struct XNNDatatype {
  enum : int {
    kXnnDatatypeInvalid = 0,
    kXnnDatatypeFp32 = 1,
    kXnnDatatypeFp16 = 2,
    kXnnDatatypeQint8 = 3,
    kXnnDatatypeQuint8 = 4,
    kXnnDatatypeQint32 = 5,
    kXnnDatatypeQcint8 = 6,
    kXnnDatatypeQcint32 = 7,
    kXnnDatatypeQcint4 = 8,
    kXnnDatatypeQdint8 = 9,
    kXnnDatatypeQbint4 = 10,
    kXnnDatatypeQpint8 = 11,
    kXnnDatatypeInt32 = 12,
    kXnnDatatypePfp32 = 13,
    kXnnDatatypeBf16 = 14
  };
};
struct XNNQuantParams {
  enum : int { kPerChannelQuant = 1, kPerTensorQuant = 2, kPerTokenDynamicQuant = 3, kPerChannelGroupQuant = 4 };
};
struct XNodeUnion {
  enum : int {
    kXNNAdd = 1,
    kXNNFullyConnected = 2,
    kXNNSoftmax = 3,
    kXNNSigmoid = 4,
    kXNNStaticTranspose = 5,
    kXNNClamp = 6,
    kXNNConv2d = 7,
    kXNNDiv = 8,
    kXNNStaticResizeBilinear2D = 9,
    kXNNStaticConstantPad = 10,
    kXNNAvgPooling2d = 11,
    kXNNMinimum = 12,
    kXNNDepthwiseConv2d = 13,
    kXNNMaxPooling2d = 14,
    kXNNMultiply = 15,
    kXNNSubtract = 16,
    kXNNFloor = 17,
    kXNNConvert = 18,
    kXNNGlobalAvgPooling2d = 19,
    kXNNStaticReshape = 20,
    kXNNArgMaxPooling2d = 21,
    kXNNSquareRoot = 22,
    kXNNCeiling = 23,
    kXNNHardswish = 24,
    kXNNLeakyReLU = 25,
    kXNNMaximum = 26,
    kXNNNegate = 27,
    kXNNSquare = 28,
    kXnnelu = 29,
    kXNNAbs = 30,
    kXNNPReLU = 31,
    kXNNConcatenate2 = 32,
    kXNNConcatenate3 = 33,
    kXNNConcatenate4 = 34,
    kXNNStaticSlice = 35,
    kXNNScaledDotProductAttention = 36,
    kXNNBatchMatrixMultiply = 37,
    kXNNConcatenate5 = 38,
    kXNNConvTranspose2d = 39,
    kXNNReciprocalSquareRoot = 40,
    kXNNLog = 41,
    kXNNGelu = 42,
    kXNNTanh = 43,
    kXNNExp = 44,
    kXNNSin = 45,
    kXNNCopy = 46,
    kXNNCos = 47
  };
};
struct XValueUnion {
  enum : int { kXNNTensorValue = 1, kXNNQuantizedTensorValue = 2 };
};
struct Buffer {
  enum : int { kStorage };
};
struct PerChannelQuant {
  enum : int { kScale, kChannelDim, kScaleBufferIdx, kNumScales };
};
struct PerTokenDynamicQuant {
  enum : int { kNumNonbatchDims };
};
struct PerTensorQuant {
  enum : int { kScale, kZeroPoint };
};
struct PerChannelGroupQuant {
  enum : int { kScale, kChannelDim, kGroupSize, kScaleBf16, kScaleBufferIdx, kNumScales };
};
struct XNNTensorValue {
  enum : int { kDatatype, kNumDims, kDims, kConstantBufferIdx, kExternalId, kFlags, kIdOut, kDqDatatype };
};
struct XNNQuantizedTensorValue {
  enum : int { kTensorValue, kQuantParamsType, kQuantParams };
};
struct OutputMinMax {
  enum : int { kOutputMin, kOutputMax };
};
struct XNode {
  enum : int { kXnodeUnionType, kXnodeUnion, kDebugHandle, kOutputMinMax };
};
struct XValue {
  enum : int { kXvalueUnionType, kXvalueUnion };
};
struct XNNStaticTranspose {
  enum : int { kNumDims, kPerm, kInputId, kOutputId, kFlags };
};
struct XNNStaticResizeBilinear2D {
  enum : int { kNewHeight, kNewWidth, kInputId, kOutputId, kFlags };
};
struct XNNStaticConstantPad {
  enum : int { kPrePaddings, kPostPaddings, kPaddingValue, kInputId, kOutputId, kFlags };
};
struct XNNNode2x1 {
  enum : int { kInput1Id, kInput2Id, kOutputId, kFlags };
};
struct XNNNode1x1 {
  enum : int { kInputId, kOutputId, kFlags };
};
struct XNNCat {
  enum : int { kAxis, kInput1Id, kInput2Id, kInput3Id, kInput4Id, kOutputId, kFlags, kInput5Id };
};
struct XNNELU {
  enum : int { kAlpha, kInputId, kOutputId, kFlags };
};
struct XNNFullyConnected {
  enum : int { kInput1Id, kFilterId, kBiasId, kOutputId, kFlags };
};
struct XNNNodeConv {
  enum : int {
    kPaddingTop,
    kPaddingRight,
    kPaddingBottom,
    kPaddingLeft,
    kKernelHeight,
    kKernelWidth,
    kSubsamplingHeight,
    kSubsamplingWidth,
    kDilationHeight,
    kDilationWidth,
    kGroupInputChannels,
    kGroupOutputChannels,
    kGroups,
    kAdjustmentHeight,
    kAdjustmentWidth,
    kInput1Id,
    kFilterId,
    kBiasId,
    kOutputId,
    kFlags
  };
};
struct XNNPooling2D {
  enum : int {
    kPaddingTop,
    kPaddingRight,
    kPaddingBottom,
    kPaddingLeft,
    kPoolingHeight,
    kPoolingWidth,
    kStrideHeight,
    kStrideWidth,
    kDilationHeight,
    kDilationWidth,
    kInputId,
    kOutputId,
    kFlags
  };
};
struct XNNStaticReshape {
  enum : int { kNumDims, kNewShape, kInputId, kOutputId, kFlags };
};
struct XNNStaticSlice {
  enum : int { kNumDims, kOffsets, kSizes, kInputId, kOutputId, kFlags };
};
struct XNNScaledDotProductAttention {
  enum : int { kQueryId, kKeyId, kValueId, kScaleId, kMaskId, kOutputId, kFlags };
};
struct XNNArgMaxPooling2d {
  enum : int {
    kPaddingTop,
    kPaddingRight,
    kPaddingBottom,
    kPaddingLeft,
    kPoolingHeight,
    kPoolingWidth,
    kInputId,
    kOutputValueId,
    kOutputIndexId,
    kFlags
  };
};
struct XNNLeakyReLU {
  enum : int { kNegativeSlope, kInputId, kOutputId, kFlags };
};
struct ConstantDataOffset {
  enum : int { kOffset, kSize, kNamedKey };
};
struct XNNGraph {
  enum : int {
    kVersion,
    kXnodes,
    kXvalues,
    kNumExterns,
    kInputIds,
    kOutputIds,
    kConstantBuffer,
    kMemBufferSizes,
    kConstantData
  };
};
// The fields with the values that a node reads, and those with the values that it writes, by the number of
// its kind in XNodeUnion less 1; -1 fills the rest.
inline constexpr std::array<std::array<std::array<int, 6>, 2>, 47> kNodeValues = {
    {{{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},    {{{0, 1, 2, -1, -1, -1}, {3, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{2, -1, -1, -1, -1, -1}, {3, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{15, 16, 17, -1, -1, -1}, {18, -1, -1, -1, -1, -1}}}, {{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},
     {{{2, -1, -1, -1, -1, -1}, {3, -1, -1, -1, -1, -1}}},   {{{3, -1, -1, -1, -1, -1}, {4, -1, -1, -1, -1, -1}}},
     {{{10, -1, -1, -1, -1, -1}, {11, -1, -1, -1, -1, -1}}}, {{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},
     {{{15, 16, 17, -1, -1, -1}, {18, -1, -1, -1, -1, -1}}}, {{{10, -1, -1, -1, -1, -1}, {11, -1, -1, -1, -1, -1}}},
     {{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},    {{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{2, -1, -1, -1, -1, -1}, {3, -1, -1, -1, -1, -1}}},
     {{{6, -1, -1, -1, -1, -1}, {7, 8, -1, -1, -1, -1}}},    {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{1, -1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},   {{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{1, -1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},    {{{1, 2, 3, 4, 7, -1}, {5, -1, -1, -1, -1, -1}}},
     {{{1, 2, 3, 4, 7, -1}, {5, -1, -1, -1, -1, -1}}},       {{{1, 2, 3, 4, 7, -1}, {5, -1, -1, -1, -1, -1}}},
     {{{3, -1, -1, -1, -1, -1}, {4, -1, -1, -1, -1, -1}}},   {{{0, 1, 2, 3, 4, -1}, {5, -1, -1, -1, -1, -1}}},
     {{{0, 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1, -1}}},    {{{1, 2, 3, 4, 7, -1}, {5, -1, -1, -1, -1, -1}}},
     {{{15, 16, 17, -1, -1, -1}, {18, -1, -1, -1, -1, -1}}}, {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},   {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}},
     {{{0, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1}}}}};

}  // namespace modelbuild::schema::xnnpack
