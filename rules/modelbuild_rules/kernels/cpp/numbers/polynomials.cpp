// Orthogonal polynomials f(Tensor x, Tensor n) of PyTorch, also with a number in place of one tensor: the recurrence in
// the degree, in the result's type so that it overflows as in eager mode. The degree is cut to a whole number.
#include <cmath>
#include <cstdint>
#include <limits>

#include "numbers/elements.hpp"

namespace modelbuild::kernels {
namespace {

// Returns p(n) of a recurrence from p(0) = 1 and p(1); `next` returns p(k+1) for k, p(k) and p(k-1).
template <typename T, typename Function>
T recurrence(T last, double n, Function&& next) {
  T before = 1;
  for (std::int64_t k = 1; static_cast<double>(k) < n && !is_nan(last); ++k) {
    const T found = next(k, last, before);
    before = last;
    last = found;
  }
  return last;
}

// Chebyshev polynomials begin with 1 and a x + b, and then p(n+1) = 2x p(n) - p(n-1).
template <int kFactor, int kConstant>
struct Chebyshev {
  // With x = cos t: T is cos(nt), U sin((n+1)t) / sin t, V cos((n+1/2)t) / cos(t/2), W sin((n+1/2)t) / sin(t/2).
  static double inside(double x, double n) {
    const double t = std::acos(x);
    if constexpr (kFactor == 1) return std::cos(n * t);
    if constexpr (kConstant == 0) return std::sin((n + 1) * t) / std::sin(t);
    if constexpr (kConstant == -1) return std::cos((n + 0.5) * t) / std::cos(t / 2);
    return std::sin((n + 0.5) * t) / std::sin(t / 2);
  }

  // The values at 1 and -1, of which the recurrence has no end for a huge degree.
  static double at_one(bool positive, double n) {
    const double sign = positive || std::fmod(n, 2) == 0 ? 1 : -1;
    if constexpr (kFactor == 1) return sign;
    if constexpr (kConstant == 0) return sign * (n + 1);
    return (kConstant == -1) == positive ? sign : sign * (2 * n + 1);
  }

  template <typename T>
  static T value(T x, double n) {
    if (std::fabs(x) == 1) return static_cast<T>(at_one(x > 0, n));
    if (std::fabs(x) < 1 && n > 6) return static_cast<T>(inside(x, n));
    return recurrence(static_cast<T>(kFactor * x + kConstant), n,
                      [=](std::int64_t, T last, T before) { return static_cast<T>((x + x) * last - before); });
  }
};

// The same polynomials of 2x - 1.
template <typename Polynomial>
struct Shifted {
  template <typename T>
  static T value(T x, double n) {
    return Polynomial::value(static_cast<T>(x + x - 1), n);
  }
};

// p(n+1) = factor (x p(n) - n p(n-1)).
template <int kFactor>
struct Hermite {
  template <typename T>
  static T value(T x, double n) {
    // Eager mode has no values of such degrees, most of which are too large.
    if (kFactor == 2 && n > (sizeof(T) == 4 ? 128 : 512)) return std::numeric_limits<T>::quiet_NaN();
    return recurrence(static_cast<T>(kFactor * x), n, [=](std::int64_t k, T last, T before) {
      return static_cast<T>(kFactor * (x * last - static_cast<T>(k) * before));
    });
  }
};

// (n+1) p(n+1) = (2n + 1 - x) p(n) - n p(n-1).
struct Laguerre {
  template <typename T>
  static T value(T x, double n) {
    if (x == 0) return 1;
    return recurrence(static_cast<T>(1 - x), n, [=](std::int64_t k, T last, T before) {
      return static_cast<T>(((static_cast<T>(2 * k + 1) - x) * last - static_cast<T>(k) * before) /
                            static_cast<T>(k + 1));
    });
  }
};

// (n+1) p(n+1) = (2n + 1) x p(n) - n p(n-1).
struct Legendre {
  template <typename T>
  static T value(T x, double n) {
    if (std::fabs(x) == 1) return x > 0 || std::fmod(n, 2) == 0 ? 1 : -1;
    return recurrence(x, n, [=](std::int64_t k, T last, T before) {
      return static_cast<T>((static_cast<T>(2 * k + 1) * x * last - static_cast<T>(k) * before) /
                            static_cast<T>(k + 1));
    });
  }
};

template <typename Polynomial>
void polynomial(KernelRuntimeContext& context, Arguments arguments) {
  map_both<double>(context, arguments, [](double x, double degree, auto type) -> double {
    const double n = std::trunc(degree);
    if (!(n >= 0)) return 0;
    if (n == 0) return 1;
    if constexpr (std::is_same_v<decltype(type), double>) {
      return Polynomial::value(x, n);
    } else {
      return Polynomial::value(static_cast<float>(x), n);
    }
  });
}

template <typename Polynomial>
struct Polynomials {
  Polynomials(const char* out, const char* x_scalar, const char* n_scalar)
      : tensors(out, polynomial<Polynomial>),
        number_x(x_scalar, polynomial<Polynomial>),
        number_n(n_scalar, polynomial<Polynomial>) {}

  Registration tensors;
  Registration number_x;
  Registration number_n;
};

using T = Chebyshev<1, 0>;
using U = Chebyshev<2, 0>;
using V = Chebyshev<2, -1>;
using W = Chebyshev<2, 1>;

#define MB_POLYNOMIAL(type, name)                                                                         \
  const Polynomials<type> k_##name("aten::special_" #name ".out", "aten::special_" #name ".x_scalar_out", \
                                   "aten::special_" #name ".n_scalar_out")

MB_POLYNOMIAL(T, chebyshev_polynomial_t);
MB_POLYNOMIAL(U, chebyshev_polynomial_u);
MB_POLYNOMIAL(V, chebyshev_polynomial_v);
MB_POLYNOMIAL(W, chebyshev_polynomial_w);
MB_POLYNOMIAL(Shifted<T>, shifted_chebyshev_polynomial_t);
MB_POLYNOMIAL(Shifted<U>, shifted_chebyshev_polynomial_u);
MB_POLYNOMIAL(Shifted<V>, shifted_chebyshev_polynomial_v);
MB_POLYNOMIAL(Shifted<W>, shifted_chebyshev_polynomial_w);
MB_POLYNOMIAL(Hermite<2>, hermite_polynomial_h);
MB_POLYNOMIAL(Hermite<1>, hermite_polynomial_he);
MB_POLYNOMIAL(Laguerre, laguerre_polynomial_l);
MB_POLYNOMIAL(Legendre, legendre_polynomial_p);

}  // namespace
}  // namespace modelbuild::kernels
