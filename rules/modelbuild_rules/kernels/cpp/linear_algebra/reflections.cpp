// Reflections as LAPACK stores them, those of a QR factorization: aten::geqrf(Tensor self) -> (Tensor a, Tensor tau),
// and ormqr(Tensor self, Tensor input2, Tensor input3, bool left, bool transpose) -> Tensor.
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

void ormqr(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& v = arguments[0]->toTensor();
  const Tensor& tau = arguments[1]->toTensor();
  const Tensor& b = arguments[2]->toTensor();
  const bool left = arguments[3]->toBool();
  const bool transposed = arguments[4]->toBool();
  Tensor& out = arguments[5]->toTensor();
  MB_CHECK(context, real({&v, &tau, &b, &out}) && has_matrices(v) && has_matrices(b) && tau.dim() == v.dim() - 1,
           "expected matrices of float32 or float64");
  const Sizes batch = leading(b);
  const auto count = tau.size(tau.dim() - 1);
  MB_CHECK(context,
           leading(v) == batch && leading(tau, 1) == batch && v.size(v.dim() - 2) == b.size(b.dim() - (left ? 2 : 1)) &&
               count <= std::min(v.size(v.dim() - 2), v.size(v.dim() - 1)),
           "expected matrices of sizes that fit");
  MB_CHECK(context, resize(out, {b.sizes().begin(), b.sizes().end()}), "out: no room for the result");
  const Batches from(v, batch);
  const Batches from_tau(tau, batch, 1);
  const Batches from_b(b, batch);
  Batches to(out, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    Matrix result = left ? from_b.read(number) : from_b.read(number).transposed();
    const Matrix vectors = from.read(number);
    const Matrix taus = from_tau.read(number);
    for (std::int64_t step = 0; step < count; ++step) {
      const std::int64_t k = left == transposed ? step : count - 1 - step;
      reflect(vectors, k, k, taus(k, 0), result);
    }
    to.write(number, left ? result : result.transposed());
  }
}

const Registration kFactor("aten::geqrf.a", geqrf);
const Registration kMultiply("aten::ormqr.out", ormqr);

}  // namespace
}  // namespace modelbuild::kernels
