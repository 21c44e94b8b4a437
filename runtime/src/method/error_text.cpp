#include "method/error_text.hpp"

namespace modelbuild {

const char* error_text(executorch::runtime::Error error) {
  using Code = executorch::runtime::Error;
  switch (error) {
    case Code::InvalidState:
      return "invalid state";
    case Code::NotSupported:
      return "not supported";
    case Code::NotImplemented:
      return "not implemented";
    case Code::InvalidArgument:
      return "invalid argument";
    case Code::InvalidType:
      return "invalid type";
    case Code::OperatorMissing:
      return "an operator has no kernel";
    case Code::NotFound:
      return "not found";
    case Code::MemoryAllocationFailed:
      return "out of memory";
    case Code::AccessFailed:
      return "the file can't be read";
    case Code::InvalidProgram:
      return "the program is damaged or of another version";
    case Code::InvalidExternalData:
      return "the external data do not belong to the program";
    case Code::OutOfResources:
      return "out of resources";
    case Code::DelegateInvalidCompatibility:
      return "a delegate refuses its blob";
    case Code::DelegateMemoryAllocationFailed:
      return "a delegate is out of memory";
    case Code::DelegateInvalidHandle:
      return "a delegate failed";
    default:
      return "internal error";
  }
}

}  // namespace modelbuild
