// Functions around the gamma function: digamma, polygamma(int n, Tensor self), special_zeta, igamma, igammac; and gcd
// and lcm of whole numbers.
#include <array>
#include <cmath>
#include <limits>

#include "numbers/elements.hpp"

namespace modelbuild::kernels {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

// Hurwitz's zeta function, the sum of (q+k)^-s over k >= 0, with Euler and Maclaurin's formula from 10 on. The values
// at the edges are eager mode's.
double zeta(double s, double q) {
  if (s == 1) return kInfinity;
  if (s < 1) return kNan;
  if (q <= 0 && q == std::floor(q)) return kInfinity;
  if ((q <= 0 && s != std::floor(s)) || std::isinf(q)) return kNan;
  double sum = 0;
  for (int k = 0; k < 10 || q < 10; ++k) {
    const double term = std::pow(q, -s);
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum)) return sum;
    q += 1;
  }
  // Bernoulli's numbers B(2j) over (2j)!.
  constexpr std::array<double, 6> kTerms{1. / 12,       -1. / 720,     1. / 30240,
                                         -1. / 1209600, 1. / 47900160, -691. / 1307674368000};
  double term = std::pow(q, -s);
  sum += term * q / (s - 1) + term / 2;
  double factor = term * s / q;
  for (std::size_t j = 0; j < kTerms.size(); ++j) {
    sum += kTerms[j] * factor;
    const double next = s + 2 * static_cast<double>(j) + 1;
    factor *= next / q * ((next + 1) / q);
  }
  return sum;
}

// The derivative of digamma, zeta(2, x), by reflection below 0.5. Eager mode computes the sine in the result's type,
// which makes it finite at negative whole numbers.
template <typename T>
double trigamma(double x) {
  if (x == 0) return kInfinity;
  if (std::isinf(x)) return x > 0 ? 0 : kNan;
  if (x >= 0.5 || std::isnan(x)) return zeta(2, x);
  const double sine = std::sin(static_cast<T>(static_cast<T>(kPi) * static_cast<T>(x)));
  return kPi * kPi / (sine * sine) - zeta(2, 1 - x);
}

// The derivative of order n of digamma: (-1)^(n+1) n! zeta(n+1, x).
void polygamma(KernelRuntimeContext& context, Arguments arguments) {
  const auto n = static_cast<double>(arguments[0]->toInt());
  MB_CHECK(context, n >= 0, "n: expected no negative number");
  Tensor& out = arguments[2]->toTensor();
  const bool wide = out.scalar_type() == ScalarType::Double;
  const double factor = (std::fmod(n, 2) == 0 ? -1 : 1) * std::exp(std::lgamma(n + 1));
  map(context, arguments[1]->toTensor(), out, [&](double x) {
    if (n == 0) return digamma(x);
    if (n == 1) return wide ? trigamma<double>(x) : trigamma<float>(x);
    return factor * zeta(n + 1, x);
  });
}

// m - log(1 + m), without loss near 0.
double excess(double m) {
  if (std::fabs(m) > 1e-3) return m - std::log1p(m);
  return m * m * (1. / 2 - m * (1. / 3 - m * (1. / 4 - m * (1. / 5 - m / 6))));
}

// x^a e^-x / gamma(a + 1), with Stirling's series of large a.
double density(double a, double x) {
  if (a < 20) return std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  const double stirling = (1. / 12 - (1. / 360 - 1. / 1260 / (a * a)) / (a * a)) / a;
  return std::exp(-a * excess((x - a) / a) - stirling) / std::sqrt(2 * kPi * a);
}

// The regularized incomplete gamma functions P(a, x), and Q = 1 - P if `upper`: the series of P for x below a + 1, the
// continued fraction of Q above, and for huge a Temme's expansion in the normal distribution.
double incomplete(double a, double x, bool upper) {
  const auto lower_is = [&](double p) { return upper ? 1 - p : p; };
  if (a < 0 || x < 0) return kNan;
  if (a == 0) return x > 0 ? lower_is(1) : kNan;
  if (x == 0) return lower_is(0);
  if (std::isinf(a)) return std::isinf(x) ? kNan : lower_is(0);
  if (std::isinf(x)) return lower_is(1);
  if (std::isnan(a) || std::isnan(x)) return kNan;
  if (a > 1e10) {
    const double m = (x - a) / a;
    const double z = std::copysign(std::sqrt(a * excess(m)), upper ? m : -m);
    const double rest = std::exp(-z * z) / std::sqrt(2 * kPi * a) / 3;
    return std::erfc(z) / 2 + (upper ? -rest : rest);
  }
  if (x < a + 1) {
    double term = 1;
    double sum = 1;
    for (double k = 1; term > sum * 1e-17; ++k) sum += term *= x / (a + k);
    return upper ? 1 - density(a, x) * sum : density(a, x) * sum;
  }
  // Lentz's method for 1 / (x+1-a - 1(1-a) / (x+3-a - 2(2-a) / (x+5-a - ...))).
  double b = x + 1 - a;
  double c = 1e300;
  double d = 1 / b;
  double fraction = d;
  for (int step = 1; step < 10'000'000; ++step) {
    const double k = step;
    const double numerator = -k * (k - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    fraction *= c * d;
    if (std::fabs(c * d - 1) < 1e-16) break;
  }
  const double above = density(a, x) * a * fraction;
  return upper ? above : 1 - above;
}

double igamma(double a, double x) { return incomplete(a, x, false); }
double igammac(double a, double x) { return incomplete(a, x, true); }

// Euclid's algorithm on the sizes in the result's type, where the size of the smallest number is itself, as in eager
// mode.
template <typename T>
std::int64_t size_of(std::int64_t x) {
  return static_cast<T>(x < 0 ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x));
}

template <typename T>
std::int64_t divisor(std::int64_t x, std::int64_t y) {
  std::int64_t a = size_of<T>(x);
  std::int64_t b = size_of<T>(y);
  while (a != 0) {
    const std::int64_t rest = a == -1 ? 0 : b % a;
    b = a;
    a = rest;
  }
  return b;
}

void gcd(KernelRuntimeContext& context, Arguments arguments) {
  map_both<std::int64_t>(context, arguments, [](auto x, auto y, auto type) { return divisor<decltype(type)>(x, y); });
}

void lcm(KernelRuntimeContext& context, Arguments arguments) {
  map_both<std::int64_t>(context, arguments, [](auto x, auto y, auto type) {
    const std::int64_t common = divisor<decltype(type)>(x, y);
    if (common == 0) return std::int64_t{0};
    const std::uint64_t part =
        common == -1 ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x / common);
    return size_of<std::int64_t>(static_cast<std::int64_t>(part * static_cast<std::uint64_t>(y)));
  });
}

const Registration kDigamma("aten::digamma.out", function<digamma>);
const Registration kPolygamma("aten::polygamma.out", polygamma);
const Registration kZeta("aten::special_zeta.out", function_of_both<zeta>);
const Registration kZetaOfNumber("aten::special_zeta.self_scalar_out", function_of_both<zeta>);
const Registration kZetaAndNumber("aten::special_zeta.other_scalar_out", function_of_both<zeta>);
const Registration kIgamma("aten::igamma.out", function_of_both<igamma>);
const Registration kIgammac("aten::igammac.out", function_of_both<igammac>);
const Registration kGcd("aten::gcd.out", gcd);
const Registration kLcm("aten::lcm.out", lcm);

}  // namespace
}  // namespace modelbuild::kernels
