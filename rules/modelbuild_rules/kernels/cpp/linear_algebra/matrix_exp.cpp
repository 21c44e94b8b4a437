// aten::linalg_matrix_exp(Tensor self) -> Tensor, by scaling, a Pade approximant and squaring (Golub & Van Loan,
// algorithm 11.3.1, with q = 8).
#include "lu.hpp"

namespace modelbuild::kernels {
namespace {

Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows(), b.columns());
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t k = 0; k < a.columns(); ++k) result.add_row(i, a(i, k), b, k);
  }
  return result;
}

void add(Matrix& to, double factor, const Matrix& other) {
  for (std::int64_t i = 0; i < to.rows(); ++i) to.add_row(i, factor, other, i);
}

Matrix exponential(const Matrix& given) {
  constexpr int kDegree = 8;
  const double size = norm(given);
  // Infinities and NaN spread by products, without a scale.
  const int squarings = std::isfinite(size) && size > 0.5 ? std::ilogb(size) + 2 : 0;
  Matrix a(given.rows(), given.columns());
  add(a, std::ldexp(1, -squarings), given);
  Matrix power = Matrix::identity(a.rows());
  Matrix numerator = power;
  Matrix denominator = power;
  double c = 1;
  for (int k = 1; k <= kDegree; ++k) {
    c *= static_cast<double>(kDegree - k + 1) / ((2 * kDegree - k + 1) * k);
    power = multiply(a, power);
    add(numerator, c, power);
    add(denominator, k % 2 == 0 ? c : -c, power);
  }
  const Lu lu = lu_of(denominator);
  solve(lu.factors, lu.swaps, false, numerator);
  for (int k = 0; k < squarings; ++k) numerator = multiply(numerator, numerator);
  return numerator;
}

void matrix_exp(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  Tensor& out = arguments[1]->toTensor();
  MB_CHECK(context, real({&a, &out}) && has_matrices(a, true), "self: expected square matrices of float32 or float64");
  const Sizes batch = leading(a);
  MB_CHECK(context, resize(out, {a.sizes().begin(), a.sizes().end()}), "out: no room for the result");
  const Batches from(a, batch);
  Batches to(out, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) to.write(number, exponential(from.read(number)));
}

const Registration kExponential("aten::linalg_matrix_exp.out", matrix_exp);

}  // namespace
}  // namespace modelbuild::kernels
