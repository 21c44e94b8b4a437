// aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor, and aten::nextafter: numbers of two tensors of one
// floating-point type, broadcast.
#include <cmath>

#include "numbers/elements.hpp"

namespace modelbuild::kernels {
namespace {

template <typename Function>
void combine(KernelRuntimeContext& context, Arguments arguments, Function&& function) {
  const Tensor& self = arguments[0]->toTensor();
  const Tensor& other = arguments[1]->toTensor();
  Tensor& out = arguments[2]->toTensor();
  const std::optional<Sizes> sizes = sizes_of_both(self, other);
  MB_CHECK(context, sizes, "expected sizes that can be broadcast");
  MB_CHECK(context, resize(out, *sizes), "out: no room for the result");
  MB_CHECK(context, row_major(self) && row_major(other) && row_major(out), "expected row-major order");
  MB_CHECK(context, self.scalar_type() == other.scalar_type() && self.scalar_type() == out.scalar_type(),
           "expected tensors of one type");
  const bool known = with_any_float(out.scalar_type(), [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      out.mutable_data_ptr<T>()[i] =
          function(self.const_data_ptr<T>()[place(self, out, i)], other.const_data_ptr<T>()[place(other, out, i)]);
    }
  });
  MB_CHECK(context, known, "expected floating-point numbers");
}

void copysign(KernelRuntimeContext& context, Arguments arguments) {
  combine(context, arguments, [](auto x, auto y) {
    return static_cast<decltype(x)>(std::copysign(static_cast<double>(x), static_cast<double>(y)));
  });
}

void nextafter(KernelRuntimeContext& context, Arguments arguments) {
  const ScalarType type = arguments[0]->toTensor().scalar_type();
  MB_CHECK(context, type == ScalarType::Float || type == ScalarType::Double, "expected float32 or float64");
  combine(context, arguments, [](auto x, auto y) {
    if constexpr (sizeof(x) == 2) {
      return x;
    } else {
      return std::nextafter(x, y);
    }
  });
}

const Registration kCopysign("aten::copysign.out", copysign);
const Registration kNextafter("aten::nextafter.out", nextafter);

}  // namespace
}  // namespace modelbuild::kernels
