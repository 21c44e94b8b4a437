// Systems with triangular matrices, by substitution:
// aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left, bool unitriangular) -> Tensor, and
// triangular_solve(Tensor self, Tensor A, bool upper, bool transpose, bool unitriangular)
//     -> (Tensor solution, Tensor cloned_coefficient).
#include "matrix.hpp"

namespace modelbuild::kernels {
namespace {

// Solves A X = B, or X A = B, for all matrices. `copy` receives A, if it is a tensor.
void solve_into(KernelRuntimeContext& context, const Tensor& a, const Tensor& b, Triangle how, bool left, Tensor& out,
                Tensor* copy) {
  MB_CHECK(context, real({&a, &b, &out}) && has_matrices(a, true) && has_matrices(b),
           "expected matrices of float32 or float64");
  MB_CHECK(context, b.size(b.dim() - (left ? 2 : 1)) == a.size(a.dim() - 1), "B: a size that doesn't fit");
  const std::optional<Sizes> batch = broadcast(leading(a), leading(b));
  MB_CHECK(context, batch, "expected batches of one size");
  MB_CHECK(context, resize(out, joined(*batch, {b.size(b.dim() - 2), b.size(b.dim() - 1)})), "out: no room");
  const Batches from_a(a, *batch);
  const Batches from_b(b, *batch);
  Batches to(out, *batch);
  if (!left) how.transposed = !how.transposed;
  for (std::int64_t number = 0; number < product(*batch); ++number) {
    Matrix x = left ? from_b.read(number) : from_b.read(number).transposed();
    substitute(from_a.read(number), how, x);
    to.write(number, left ? x : x.transposed());
  }
  if (copy == nullptr) return;
  const std::int64_t size = a.size(a.dim() - 1);
  MB_CHECK(context, real({&a, copy}) && resize(*copy, joined(*batch, {size, size})), "cloned_coefficient: no room");
  Batches to_copy(*copy, *batch);
  for (std::int64_t number = 0; number < product(*batch); ++number) to_copy.write(number, from_a.read(number));
}

void solve(KernelRuntimeContext& context, Arguments arguments) {
  const Triangle how{arguments[2]->toBool(), false, arguments[4]->toBool()};
  solve_into(context, arguments[0]->toTensor(), arguments[1]->toTensor(), how, arguments[3]->toBool(),
             arguments[5]->toTensor(), nullptr);
}

void solve_older(KernelRuntimeContext& context, Arguments arguments) {
  const Triangle how{arguments[2]->toBool(), arguments[3]->toBool(), arguments[4]->toBool()};
  solve_into(context, arguments[1]->toTensor(), arguments[0]->toTensor(), how, true, arguments[5]->toTensor(),
             &arguments[6]->toTensor());
}

const Registration kSolve("aten::linalg_solve_triangular.out", solve);
const Registration kSolveOlder("aten::triangular_solve.X", solve_older);

}  // namespace
}  // namespace modelbuild::kernels
