// Functions of the normal distribution: special_erfcx, special_log_ndtr, special_ndtri.
#include <cmath>
#include <limits>

#include "numbers/elements.hpp"

namespace modelbuild::kernels {
namespace {

constexpr double kPi = 3.14159265358979323846;
const double kRoot2 = std::sqrt(2.);

// exp(x^2) erfc(x): the product, with the error of x^2 put back, and from 10 on the asymptotic series, the sum of
// (-1)^k (2k-1)!! / (2 x^2)^k over x sqrt(pi).
double erfcx(double x) {
  if (x < 10) {
    const double square = x * x;
    if (square > 720) return std::numeric_limits<double>::infinity();
    return std::exp(square) * (1 + std::fma(x, x, -square)) * std::erfc(x);
  }
  double term = 1;
  double sum = 1;
  for (int k = 1; k < 20; ++k) sum += term *= -(2 * k - 1) / (2 * x * x);
  return sum / (x * std::sqrt(kPi));
}

// log(erfc(-x / sqrt 2) / 2).
double log_ndtr(double x) {
  if (x < -1) return std::log(erfcx(-x / kRoot2) / 2) - x * x / 2;
  return std::log1p(-std::erfc(x / kRoot2) / 2);
}

// Newton's steps for log_ndtr(x) = log p. It is concave, so that steps from below the root stay there, and
// -sqrt(-2 log 2p) is below it, since the probability of less than -x is at most exp(-x^2 / 2) / 2.
double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (p == 0) return -std::numeric_limits<double>::infinity();
  if (p > 0.5) return -ndtri(1 - p);
  double x = -std::sqrt(std::fmax(0, -2 * std::log(2 * p)));
  for (int count = 0; count < 30; ++count) {
    const double step = (log_ndtr(x) - std::log(p)) * erfcx(-x / kRoot2) * std::sqrt(kPi / 2);
    x -= step;
    if (!(std::fabs(step) > 1e-15 * std::fabs(x))) break;
  }
  return x;
}

const Registration kErfcx("aten::special_erfcx.out", function<erfcx>);
const Registration kLogNdtr("aten::special_log_ndtr.out", function<log_ndtr>);
const Registration kNdtri("aten::special_ndtri.out", function<ndtri>);

}  // namespace
}  // namespace modelbuild::kernels
