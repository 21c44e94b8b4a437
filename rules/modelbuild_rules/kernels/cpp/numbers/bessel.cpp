// Bessel functions: i0, special_i0e, special_i1, special_i1e, special_modified_bessel_*,
// special_scaled_modified_bessel_* and special_spherical_bessel_j0.
#include <cmath>
#include <limits>

#include "numbers/elements.hpp"

namespace modelbuild::kernels {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kEuler = 0.57721566490153286061;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The modified Bessel function of the first kind of order v = 0 or 1, times exp(-|x|): its power series, the sum of
// (x/2)^(2k+v) / (k! (k+v)!), whose terms all have one sign, and from 50 on Hankel's asymptotic series.
double ie(int v, double x) {
  const double size = std::fabs(x);
  const double sign = v == 1 && x < 0 ? -1 : 1;
  if (std::isinf(size)) return sign * 0.;
  double term = 1;
  double sum = 1;
  if (size < 50) {
    for (int k = 1; term > sum * 1e-17; ++k) sum += term *= (size / 2 / k) * (size / 2 / (k + v));
    return (v == 1 ? x / 2 : 1) * sum * std::exp(-size);
  }
  for (int k = 1; k < 20; ++k) sum += term *= ((2 * k - 1) * (2 * k - 1) - 4 * v) / (8 * size * k);
  return sign * sum / std::sqrt(2 * kPi * size);
}

// exp(|x|) times a value that is finite; of infinities NaN, as in eager mode.
double i(int v, double x) {
  if (std::isinf(x)) return kNan;
  const double half = std::exp(std::fabs(x) / 2);
  return ie(v, x) * half * half;
}

double i0(double x) { return i(0, x); }
double i0e(double x) { return ie(0, x); }
double i1(double x) { return i(1, x); }
double i1e(double x) { return ie(1, x); }

// The modified Bessel function of the second kind of order v, times exp(x), for positive x: the integral of
// exp(-x (cosh t - 1)) cosh(v t) over t >= 0 with the trapezoidal rule, whose error falls exponentially with 1 / step.
double ke_integral(double v, double x) {
  const double step = std::fmin(0.2, 0.35 / std::sqrt(x));
  double sum = 0.5;
  for (int k = 1;; ++k) {
    const double sine = std::sinh(k * step / 2);
    const double power = 2 * x * sine * sine;
    if (!(power < 45)) return sum * step;
    sum += std::exp(-power) * std::cosh(v * k * step);
  }
}

double ke(int v, double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInfinity;
  if (std::isinf(x)) return 0;
  if (x < 1e-8) return v == 1 ? 1 / x : -std::log(x / 2) - kEuler;
  return ke_integral(v, x);
}

double k0e(double x) { return ke(0, x); }
double k1e(double x) { return ke(1, x); }
double k0(double x) { return std::isinf(x) && x > 0 ? 0 : ke(0, x) * std::exp(-x); }
double k1(double x) { return std::isinf(x) && x > 0 ? 0 : ke(1, x) * std::exp(-x); }

double spherical_j0(double x) { return x == 0 ? 1 : std::isinf(x) ? 0 : std::sin(x) / x; }

const Registration kI0("aten::i0.out", function<i0>);
const Registration kI0e("aten::special_i0e.out", function<i0e>);
const Registration kI1("aten::special_i1.out", function<i1>);
const Registration kI1e("aten::special_i1e.out", function<i1e>);
const Registration kModifiedI0("aten::special_modified_bessel_i0.out", function<i0>);
const Registration kModifiedI1("aten::special_modified_bessel_i1.out", function<i1>);
const Registration kModifiedK0("aten::special_modified_bessel_k0.out", function<k0>);
const Registration kModifiedK1("aten::special_modified_bessel_k1.out", function<k1>);
const Registration kScaledK0("aten::special_scaled_modified_bessel_k0.out", function<k0e>);
const Registration kScaledK1("aten::special_scaled_modified_bessel_k1.out", function<k1e>);
const Registration kSpherical("aten::special_spherical_bessel_j0.out", function<spherical_j0>);

}  // namespace
}  // namespace modelbuild::kernels
