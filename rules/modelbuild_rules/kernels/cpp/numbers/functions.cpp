// Functions of each number by itself, computed in double: erfc, erfinv, lgamma, signbit, and
// aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent).
#include <cmath>
#include <limits>

#include "numbers/elements.hpp"

namespace modelbuild::kernels {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Two Newton steps from an approximation by rational functions (Pavlis 1996).
double erfinv(double y) {
  const double size = std::fabs(y);
  if (!(size <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (size == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  double x = 0;
  if (size <= 0.7) {
    const double z = y * y;
    x = y * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899) /
        ((((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1);
  } else {
    const double z = std::sqrt(-std::log((1 - size) / 2));
    x = std::copysign(((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454, y) /
        ((1.6370678 * z + 3.5438892) * z + 1);
  }
  for (int step = 0; step < 2; ++step) x -= (std::erf(x) - y) / (2 / std::sqrt(kPi) * std::exp(-x * x));
  return x;
}

double erfc(double x) { return std::erfc(x); }
double lgamma(double x) { return std::lgamma(x); }
double signbit(double x) { return std::signbit(x) ? 1 : 0; }

void frexp(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& self = arguments[0]->toTensor();
  int power = 0;
  const auto part = [&](double x) { return std::frexp(x, &power); };
  map(context, self, arguments[1]->toTensor(), part);
  map(context, self, arguments[2]->toTensor(), [&](double x) {
    power = 0;  // of infinities and NaN, as in eager mode
    part(x);
    return std::isfinite(x) ? power : 0;
  });
}

const Registration kErfc("aten::erfc.out", function<erfc>);
const Registration kErfinv("aten::erfinv.out", function<erfinv>);
const Registration kLgamma("aten::lgamma.out", function<lgamma>);
const Registration kSignbit("aten::signbit.out", function<signbit>);
const Registration kFrexp("aten::frexp.Tensor_out", frexp);

}  // namespace
}  // namespace modelbuild::kernels
