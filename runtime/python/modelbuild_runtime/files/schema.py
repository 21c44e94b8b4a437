"""The fields of tables of a .pte and a .ptd, by their positions, and the members of enums and unions.

Written by tools/program_schema.py."""

from __future__ import annotations

from modelbuild_runtime.files.flatbuffer import Field


class TensorShapeDynamism:
    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


class TensorDataLocation:
    SEGMENT = 0
    EXTERNAL = 1


class DeviceType:
    CPU = 0
    CUDA = 1


class KernelTypes:
    Null = 1
    Int = 2
    Bool = 3
    Double = 4
    Tensor = 5
    String = 6
    IntList = 7
    DoubleList = 8
    BoolList = 9
    TensorList = 10
    OptionalTensorList = 11


class InstructionArguments:
    KernelCall = 1
    DelegateCall = 2
    MoveCall = 3
    JumpFalseCall = 4
    FreeCall = 5


class DataLocation:
    INLINE = 0
    SEGMENT = 1


class ContainerMetadata:
    encoded_inp_str = Field(0, "string")
    encoded_out_str = Field(1, "string")


class Null:
    pass


class AllocationDetails:
    memory_id = Field(0, "uint32")
    memory_offset_low = Field(1, "uint32")
    memory_offset_high = Field(2, "uint32")


class ExtraTensorInfo:
    mutable_data_segments_idx = Field(0, "uint64")
    fully_qualified_name = Field(1, "string")
    location = Field(2, "int8")
    device_type = Field(3, "int8")
    device_index = Field(4, "int8")


class Tensor:
    scalar_type = Field(0, "int8")
    storage_offset = Field(1, "int32")
    sizes = Field(2, "[int32]")
    dim_order = Field(3, "[uint8]")
    requires_grad = Field(4, "bool")
    data_buffer_idx = Field(5, "uint32")
    allocation_info = Field(6, "table AllocationDetails")
    layout = Field(7, "int8")
    shape_dynamism = Field(8, "int8")
    extra_tensor_info = Field(9, "table ExtraTensorInfo")


class Int:
    int_val = Field(0, "int64")


class Bool:
    bool_val = Field(0, "bool")


class Double:
    double_val = Field(0, "float64")


class String:
    string_val = Field(0, "string")


class IntList:
    items = Field(0, "[int64]")


class DoubleList:
    items = Field(0, "[float64]")


class BoolList:
    items = Field(0, "[bool]")


class TensorList:
    items = Field(0, "[int32]")


class OptionalTensorList:
    items = Field(0, "[int32]")


class EValue:
    val_type = Field(0, "uint8")
    val = Field(1, "union KernelTypes")


class Operator:
    name = Field(0, "string")
    overload = Field(1, "string")


class KernelCall:
    op_index = Field(0, "int32")
    args = Field(1, "[int32]")


class DelegateCall:
    delegate_index = Field(0, "int32")
    args = Field(1, "[int32]")


class MoveCall:
    move_from = Field(0, "int32")
    move_to = Field(1, "int32")


class JumpFalseCall:
    cond_value_index = Field(0, "int32")
    destination_instruction = Field(1, "int32")


class FreeCall:
    value_index = Field(0, "int32")


class Instruction:
    instr_args_type = Field(0, "uint8")
    instr_args = Field(1, "union InstructionArguments")


class Frame:
    filename = Field(0, "string")
    lineno = Field(1, "int32")
    name = Field(2, "string")
    context = Field(3, "string")


class FrameList:
    items = Field(0, "[table Frame]")


class BackendDelegateDataReference:
    location = Field(0, "int8")
    index = Field(1, "uint32")


class CompileSpec:
    key = Field(0, "string")
    value = Field(1, "[uint8]")


class BackendDelegate:
    id = Field(0, "string")
    processed = Field(1, "table BackendDelegateDataReference")
    compile_specs = Field(2, "[table CompileSpec]")


class Chain:
    inputs = Field(0, "[int32]")
    outputs = Field(1, "[int32]")
    instructions = Field(2, "[table Instruction]")
    stacktrace = Field(3, "[table FrameList]")


class ExecutionPlan:
    name = Field(0, "string")
    container_meta_type = Field(1, "table ContainerMetadata")
    values = Field(2, "[table EValue]")
    inputs = Field(3, "[int32]")
    outputs = Field(4, "[int32]")
    chains = Field(5, "[table Chain]")
    operators = Field(6, "[table Operator]")
    delegates = Field(7, "[table BackendDelegate]")
    non_const_buffer_sizes = Field(8, "[int64]")
    non_const_buffer_device = Field(9, "[table NonConstBufferDevice]")


class NonConstBufferDevice:
    buffer_idx = Field(0, "int32")
    device_type = Field(1, "int8")
    device_index = Field(2, "int8")


class Buffer:
    storage = Field(0, "[uint8]", 16)


class BackendDelegateInlineData:
    data = Field(0, "[uint8]", 16)


class DataSegment:
    offset = Field(0, "uint64")
    size = Field(1, "uint64")


class SubsegmentOffsets:
    segment_index = Field(0, "uint32")
    offsets = Field(1, "[uint64]")


class NamedData:
    key = Field(0, "string")
    segment_index = Field(1, "uint32")


class Program:
    version = Field(0, "uint32")
    execution_plan = Field(1, "[table ExecutionPlan]")
    constant_buffer = Field(2, "[table Buffer]")
    backend_delegate_data = Field(3, "[table BackendDelegateInlineData]")
    segments = Field(4, "[table DataSegment]")
    constant_segment = Field(5, "table SubsegmentOffsets")
    mutable_data_segments = Field(6, "[table SubsegmentOffsets]")
    named_data = Field(7, "[table NamedData]")


class PtdTensorLayout:
    scalar_type = Field(0, "int8")
    sizes = Field(1, "[int32]")
    dim_order = Field(2, "[uint8]")


class PtdDataSegment:
    offset = Field(0, "uint64")
    size = Field(1, "uint64")


class PtdNamedData:
    key = Field(0, "string")
    segment_index = Field(1, "uint32")
    tensor_layout = Field(2, "table PtdTensorLayout")


class PtdFlatTensor:
    version = Field(0, "uint32")
    segments = Field(1, "[table PtdDataSegment]")
    named_data = Field(2, "[table PtdNamedData]")
