// Reflections as LAPACK stores them, those of a QR factorization: aten::geqrf(Tensor self) -> (Tensor a, Tensor tau),
// linalg_householder_product(Tensor input, Tensor tau) -> Tensor, and
// ormqr(Tensor self, Tensor input2, Tensor input3, bool left, bool transpose) -> Tensor.
#include "orthogonal.hpp"

namespace modelbuild::kernels {
namespace {

void geqrf(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& given = arguments[0]->toTensor();
  Tensor& a = arguments[1]->toTensor();
  Tensor& tau = arguments[2]->toTensor();
  MB_CHECK(context, real({&given, &a, &tau}) && has_matrices(given), "self: expected matrices of float32 or float64");
  const Sizes batch = leading(given);
  const std::int64_t rows = given.size(given.dim() - 2);
  const std::int64_t columns = given.size(given.dim() - 1);
  MB_CHECK(context, resize(a, joined(batch, {rows, columns})) && resize(tau, joined(batch, {std::min(rows, columns)})),
           "no room for the results");
  const Batches from(given, batch);
  Batches to(a, batch);
  Batches to_tau(tau, batch, 1);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    Matrix factors = from.read(number);
    Matrix none(0, 0);
    to_tau.write(number, factor(factors, none));
    to.write(number, factors);
  }
}

// Multiplies by the product of reflections, or by its transpose, from the left.
void multiply(const Matrix& v, const Matrix& tau, bool transposed, Matrix& rows) {
  for (std::int64_t step = 0; step < tau.rows(); ++step) {
    const std::int64_t k = transposed ? step : tau.rows() - 1 - step;
    reflect(v, k, k, tau(k, 0), rows);
  }
}

// Returns whether these are reflections, and their factors, of vectors of a size.
bool fit(const Tensor& v, const Tensor& tau, std::int64_t size) {
  return has_matrices(v) && v.size(v.dim() - 2) == size && tau.dim() == v.dim() - 1 && leading(tau, 1) == leading(v) &&
         tau.size(tau.dim() - 1) <= std::min(size, v.size(v.dim() - 1));
}

void householder_product(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& v = arguments[0]->toTensor();
  const Tensor& tau = arguments[1]->toTensor();
  Tensor& out = arguments[2]->toTensor();
  MB_CHECK(context, real({&v, &tau, &out}) && has_matrices(v) && fit(v, tau, v.size(v.dim() - 2)),
           "expected reflections of float32 or float64, and their factors");
  const Sizes batch = leading(v);
  MB_CHECK(context, resize(out, {v.sizes().begin(), v.sizes().end()}), "out: no room for the result");
  const Batches from(v, batch);
  const Batches from_tau(tau, batch, 1);
  Batches to(out, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    Matrix result(v.size(v.dim() - 2), v.size(v.dim() - 1));
    for (std::int64_t i = 0; i < std::min(result.rows(), result.columns()); ++i) result(i, i) = 1;
    multiply(from.read(number), from_tau.read(number), false, result);
    to.write(number, result);
  }
}

void ormqr(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& v = arguments[0]->toTensor();
  const Tensor& tau = arguments[1]->toTensor();
  const Tensor& b = arguments[2]->toTensor();
  const bool left = arguments[3]->toBool();
  const bool transposed = arguments[4]->toBool();
  Tensor& out = arguments[5]->toTensor();
  MB_CHECK(context,
           real({&v, &tau, &b, &out}) && has_matrices(b) && fit(v, tau, b.size(b.dim() - (left ? 2 : 1))) &&
               leading(b) == leading(v),
           "expected reflections of float32 or float64, their factors, and matrices that fit");
  const Sizes batch = leading(b);
  MB_CHECK(context, resize(out, {b.sizes().begin(), b.sizes().end()}), "out: no room for the result");
  const Batches from(v, batch);
  const Batches from_tau(tau, batch, 1);
  const Batches from_b(b, batch);
  Batches to(out, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    Matrix result = left ? from_b.read(number) : from_b.read(number).transposed();
    multiply(from.read(number), from_tau.read(number), left == transposed, result);
    to.write(number, left ? result : result.transposed());
  }
}

const Registration kFactor("aten::geqrf.a", geqrf);
const Registration kProduct("aten::linalg_householder_product.out", householder_product);
const Registration kMultiply("aten::ormqr.out", ormqr);

}  // namespace
}  // namespace modelbuild::kernels
