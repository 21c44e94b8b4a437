// aten::linalg_qr(Tensor A, str mode) -> (Tensor Q, Tensor R), by Householder's reflections.
#include <cmath>

#include "matrix.hpp"

namespace modelbuild::kernels {
namespace {

// Reflects the rows of a matrix from `k` on, at the vector of ones and `v`.
void reflect(const std::vector<double>& v, double factor, std::int64_t k, Matrix& rows) {
  for (std::int64_t j = 0; j < rows.columns(); ++j) {
    double sum = 0;
    for (std::int64_t i = k; i < rows.rows(); ++i) sum += v[static_cast<std::size_t>(i)] * rows(i, j);
    for (std::int64_t i = k; i < rows.rows(); ++i) rows(i, j) -= factor * sum * v[static_cast<std::size_t>(i)];
  }
}

// Turns A into R. Returns the product of the reflections in reverse order, Q's transpose; without `wanted` an empty
// one.
Matrix factor(Matrix& a, bool wanted) {
  Matrix q = Matrix::identity(wanted ? a.rows() : 0);
  std::vector<double> v(static_cast<std::size_t>(a.rows()));
  for (std::int64_t k = 0; k < std::min(a.rows(), a.columns()); ++k) {
    // v maps column k to a multiple of the axis k. Its sign avoids cancellation.
    double below = 0;
    for (std::int64_t i = k + 1; i < a.rows(); ++i) below = std::hypot(below, a(i, k));
    if (below == 0) continue;
    const double length = std::copysign(std::hypot(a(k, k), below), a(k, k));
    const double first = a(k, k) + length;
    v[static_cast<std::size_t>(k)] = 1;
    for (std::int64_t i = k + 1; i < a.rows(); ++i) v[static_cast<std::size_t>(i)] = a(i, k) / first;
    reflect(v, first / length, k, a);
    if (wanted) reflect(v, first / length, k, q);
    for (std::int64_t i = k + 1; i < a.rows(); ++i) a(i, k) = 0;
  }
  return q;
}

// Returns the first rows of a matrix.
Matrix rows_of(const Matrix& matrix, std::int64_t count) {
  Matrix result(count, matrix.columns());
  for (std::int64_t i = 0; i < count; ++i) result.add_row(i, 1, matrix, i);
  return result;
}

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
    Matrix triangle = from.read(number);
    const Matrix reflections = factor(triangle, wanted);
    to_r.write(number, rows_of(triangle, kept));
    if (wanted) Batches(q, batch).write(number, rows_of(reflections, kept).transposed());
  }
}

const Registration kQr("aten::linalg_qr.out", qr);

}  // namespace
}  // namespace modelbuild::kernels
