// Functions of each number by itself, computed in double: erfc, erfinv, lgamma, digamma, i0, special_i0e, signbit, and
// aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent).
#include <array>
#include <cmath>
#include <limits>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Sets each number of a tensor to a function's value of the number at the same place in another.
template <typename Function>
void map(KernelRuntimeContext& context, const Tensor& self, Tensor& out, Function&& function) {
  MB_CHECK(context, resize(out, {self.sizes().begin(), self.sizes().end()}), "out: no room for the result");
  MB_CHECK(context, self.dim_order() == out.dim_order(), "expected one order of dimensions");
  const bool known = with_any(self.scalar_type(), [&](auto from) {
    with_any(out.scalar_type(), [&](auto to) {
      const auto* x = self.const_data_ptr<decltype(from)>();
      auto* y = out.mutable_data_ptr<decltype(to)>();
      for (std::int64_t i = 0; i < self.numel(); ++i) {
        y[i] = static_cast<decltype(to)>(function(static_cast<double>(x[i])));
      }
    });
  });
  MB_CHECK(context, known, "self: expected numbers");
}

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

// The recurrence up to 10, and the asymptotic series with Bernoulli's numbers from there.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    double whole = 0;
    const double part = std::modf(x, &whole);
    if (part == 0) return std::numeric_limits<double>::quiet_NaN();
    return digamma(1 - x) - kPi / std::tan(kPi * part);
  }
  double result = 0;
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  constexpr std::array<double, 7> kTerms{1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12};
  const double square = 1 / (x * x);
  double series = 0;
  for (std::size_t i = kTerms.size(); i-- > 0;) series = (series + kTerms[i]) * square;
  return result + std::log(x) - 0.5 / x - series;
}

// The modified Bessel function of the first kind of order 0, times exp(-|x|): its power series, whose terms are all
// positive, and from 50 on the asymptotic series.
double i0e(double x) {
  x = std::fabs(x);
  if (std::isinf(x)) return 0;
  double term = 1;
  double sum = 1;
  if (x < 50) {
    for (int k = 1; term > sum * 1e-17; ++k) sum += term *= (x / 2 / k) * (x / 2 / k);
    return sum * std::exp(-x);
  }
  for (int k = 1; k < 20; ++k) sum += term *= (2 * k - 1) * (2 * k - 1) / (8 * x * k);
  return sum / std::sqrt(2 * kPi * x);
}

// exp(x) times a value that is finite; of infinities NaN, as in eager mode.
double i0(double x) {
  if (std::isinf(x)) return std::numeric_limits<double>::quiet_NaN();
  const double half = std::exp(std::fabs(x) / 2);
  return i0e(x) * half * half;
}

template <double (*kFunction)(double)>
void function(KernelRuntimeContext& context, Arguments arguments) {
  map(context, arguments[0]->toTensor(), arguments[1]->toTensor(), kFunction);
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
const Registration kDigamma("aten::digamma.out", function<digamma>);
const Registration kI0("aten::i0.out", function<i0>);
const Registration kI0e("aten::special_i0e.out", function<i0e>);
const Registration kSignbit("aten::signbit.out", function<signbit>);
const Registration kFrexp("aten::frexp.Tensor_out", frexp);

}  // namespace
}  // namespace modelbuild::kernels
