#include "api/one_line.hpp"
#include "api/runtime.hpp"

namespace modelbuild {

Error::Error(Kind kind, const std::string& message) : std::runtime_error(one_line(message)), kind_(kind) {}
Error::~Error() = default;

}  // namespace modelbuild
