// Cholesky's factorization A = L L^T of symmetric matrices, and functions of its factors:
// aten::linalg_cholesky_ex(Tensor self, *, bool upper, bool check_errors) -> (Tensor L, Tensor info),
// cholesky_solve(Tensor self, Tensor input2, bool upper) -> Tensor, and
// cholesky_inverse(Tensor self, bool upper) -> Tensor.
#include <cmath>

#include "matrix.hpp"

namespace modelbuild::kernels {
namespace {

// Replaces the lower triangle by the factor, row by row, and sets the rest to zero. Returns the order of the first
// leading minor that is not positive, where it stops; otherwise 0.
int factor(Matrix& a) {
  int stopped = 0;
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = i + 1; j < a.columns(); ++j) a(i, j) = 0;
    for (std::int64_t j = 0; j <= i && stopped == 0; ++j) {
      double rest = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) rest -= a(i, k) * a(j, k);
      if (j < i) {
        a(i, j) = rest / a(j, j);
      } else if (rest > 0) {
        a(i, i) = std::sqrt(rest);
      } else {
        stopped = static_cast<int>(i + 1);
      }
    }
  }
  return stopped;
}

// Solves A X = B by A's factor. B becomes X.
void solve(const Matrix& l, bool upper, Matrix& b) {
  for (const bool transposed : {upper, !upper}) substitute(l, {upper, transposed, false}, b);
}

void cholesky(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  const bool upper = arguments[1]->toBool();
  const bool check = arguments[2]->toBool();
  Tensor& out = arguments[3]->toTensor();
  Tensor& info = arguments[4]->toTensor();
  MB_CHECK(context, real({&a, &out}) && has_matrices(a, true), "self: expected square matrices of float32 or float64");
  const Sizes batch = leading(a);
  MB_CHECK(context, resize(out, {a.sizes().begin(), a.sizes().end()}) && resize(info, batch), "no room");
  const Batches from(a, batch);
  Batches to(out, batch);
  Batches to_info(info, batch, 0);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    Matrix l = upper ? from.read(number).transposed() : from.read(number);
    const int stopped = factor(l);
    MB_CHECK(context, !check || stopped == 0, "self: a matrix that is not positive definite");
    to.write(number, upper ? l.transposed() : l);
    to_info.write(number, stopped);
  }
}

void cholesky_solve(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& b = arguments[0]->toTensor();
  const Tensor& l = arguments[1]->toTensor();
  const bool upper = arguments[2]->toBool();
  Tensor& out = arguments[3]->toTensor();
  MB_CHECK(context, real({&b, &l, &out}) && has_matrices(l, true) && has_matrices(b),
           "expected matrices of float32 or float64");
  MB_CHECK(context, b.size(b.dim() - 2) == l.size(l.dim() - 1), "self: a size that doesn't fit");
  const std::optional<Sizes> batch = broadcast(leading(l), leading(b));
  MB_CHECK(context, batch, "expected batches of one size");
  MB_CHECK(context, resize(out, joined(*batch, {b.size(b.dim() - 2), b.size(b.dim() - 1)})), "out: no room");
  const Batches from_l(l, *batch);
  const Batches from_b(b, *batch);
  Batches to(out, *batch);
  for (std::int64_t number = 0; number < product(*batch); ++number) {
    Matrix x = from_b.read(number);
    solve(from_l.read(number), upper, x);
    to.write(number, x);
  }
}

void cholesky_inverse(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& l = arguments[0]->toTensor();
  const bool upper = arguments[1]->toBool();
  Tensor& out = arguments[2]->toTensor();
  MB_CHECK(context, real({&l, &out}) && has_matrices(l, true), "self: expected square matrices of float32 or float64");
  const Sizes batch = leading(l);
  MB_CHECK(context, resize(out, {l.sizes().begin(), l.sizes().end()}), "out: no room for the result");
  const Batches from(l, batch);
  Batches to(out, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    Matrix x = Matrix::identity(l.size(l.dim() - 1));
    solve(from.read(number), upper, x);
    to.write(number, x);
  }
}

const Registration kCholesky("aten::linalg_cholesky_ex.L", cholesky);
const Registration kSolve("aten::cholesky_solve.out", cholesky_solve);
const Registration kInverse("aten::cholesky_inverse.out", cholesky_inverse);

}  // namespace
}  // namespace modelbuild::kernels
