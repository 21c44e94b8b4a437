// aten::linalg_qr(Tensor A, str mode) -> (Tensor Q, Tensor R), by Householder's reflections.
#include "orthogonal.hpp"

namespace modelbuild::kernels {
namespace {

void qr(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  const auto mode = arguments[1]->toString();
  Tensor& q = arguments[2]->toTensor();
  Tensor& r = arguments[3]->toTensor();
  MB_CHECK(context, mode == "reduced" || mode == "complete" || mode == "r", "mode: expected reduced, complete or r");
  MB_CHECK(context, real({&a, &q, &r}) && has_matrices(a), "A: expected matrices of float32 or float64");
  const bool wanted = mode != "r";
  const Sizes batch = leading(a);
  const std::int64_t rows = a.size(a.dim() - 2);
  const std::int64_t columns = a.size(a.dim() - 1);
  const std::int64_t kept = mode == "complete" ? rows : std::min(rows, columns);
  MB_CHECK(context,
           resize(q, wanted ? joined(batch, {rows, kept}) : Sizes{0}) && resize(r, joined(batch, {kept, columns})),
           "no room for the results");
  const Batches from(a, batch);
  Batches to_r(r, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    Matrix factors = from.read(number);
    Matrix product_of_all = Matrix::identity(wanted ? rows : 0);
    factor(factors, product_of_all);
    to_r.write(number, upper_rows(factors, kept));
    if (wanted) Batches(q, batch).write(number, rows_of(product_of_all, kept).transposed());
  }
}

const Registration kQr("aten::linalg_qr.out", qr);

}  // namespace
}  // namespace modelbuild::kernels
