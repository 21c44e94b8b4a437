// aten::linalg_lu_factor_ex(Tensor A, *, bool pivot, bool check_errors) -> (Tensor LU, Tensor pivots, Tensor info),
// linalg_lu(Tensor A, *, bool pivot) -> (Tensor P, Tensor L, Tensor U),
// lu_unpack(Tensor LU, Tensor pivots, bool unpack_data, bool unpack_pivots) -> (Tensor P, Tensor L, Tensor U), and
// linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left, bool adjoint) -> Tensor.
#include "lu.hpp"

namespace modelbuild::kernels {
namespace {

void factor(KernelRuntimeContext& context, Arguments arguments) {
  MB_CHECK(context, arguments[1]->toBool(), "pivot: expected True");
  factor_each(context, arguments[0]->toTensor(), false, arguments[3]->toTensor(), arguments[4]->toTensor(),
              &arguments[5]->toTensor(), arguments[2]->toBool(), [](std::int64_t, const Lu&) {});
}

void decompose(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  Tensor& p = arguments[2]->toTensor();
  Tensor& l = arguments[3]->toTensor();
  Tensor& u = arguments[4]->toTensor();
  MB_CHECK(context, arguments[1]->toBool(), "pivot: expected True");
  MB_CHECK(context, real({&a, &p, &l, &u}) && has_matrices(a), "A: expected matrices of float32 or float64");
  const Sizes batch = leading(a);
  const std::int64_t rows = a.size(a.dim() - 2);
  const std::int64_t columns = a.size(a.dim() - 1);
  const std::int64_t steps = std::min(rows, columns);
  MB_CHECK(context,
           resize(p, joined(batch, {rows, rows})) && resize(l, joined(batch, {rows, steps})) &&
               resize(u, joined(batch, {steps, columns})),
           "no room for the results");
  const Batches from(a, batch);
  Batches to_p(p, batch);
  Batches to_l(l, batch);
  Batches to_u(u, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    const Lu lu = lu_of(from.read(number));
    to_p.write(number, permutation(lu.swaps, rows));
    to_l.write(number, lower_of(lu.factors));
    to_u.write(number, upper_of(lu.factors));
  }
}

void unpack(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& factors = arguments[0]->toTensor();
  const Tensor& swaps = arguments[1]->toTensor();
  const bool data = arguments[2]->toBool();
  const bool pivots = arguments[3]->toBool();
  Tensor& p = arguments[4]->toTensor();
  Tensor& l = arguments[5]->toTensor();
  Tensor& u = arguments[6]->toTensor();
  MB_CHECK(context, real({&factors, &p, &l, &u}) && has_matrices(factors) && swaps.scalar_type() == ScalarType::Int,
           "expected matrices of float32 or float64, and pivots of int32");
  const Sizes batch = leading(factors);
  const std::int64_t rows = factors.size(factors.dim() - 2);
  const std::int64_t columns = factors.size(factors.dim() - 1);
  const std::int64_t steps = std::min(rows, columns);
  MB_CHECK(context, !pivots || (swaps.dim() >= 1 && leading(swaps, 1) == batch && swaps.size(swaps.dim() - 1) == steps),
           "pivots: expected those of the matrices");
  const auto sizes = [&](bool wanted, std::int64_t height, std::int64_t width) {
    return wanted ? joined(batch, {height, width}) : Sizes{0};
  };
  MB_CHECK(context,
           resize(p, sizes(pivots, rows, rows)) && resize(l, sizes(data, rows, steps)) &&
               resize(u, sizes(data, steps, columns)),
           "no room for the results");
  const Batches from(factors, batch);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    if (pivots) {
      const Matrix given = Batches(swaps, batch, 1).read(number);
      MB_CHECK(context, in_range(given, rows), "pivots: expected numbers of rows, from 1 on");
      Batches(p, batch).write(number, permutation(given, rows));
    }
    if (data) {
      Batches(l, batch).write(number, lower_of(from.read(number)));
      Batches(u, batch).write(number, upper_of(from.read(number)));
    }
  }
}

void solve_factored(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& factors = arguments[0]->toTensor();
  const Tensor& swaps = arguments[1]->toTensor();
  const Tensor& b = arguments[2]->toTensor();
  const bool left = arguments[3]->toBool();
  const bool adjoint = arguments[4]->toBool();
  Tensor& out = arguments[5]->toTensor();
  MB_CHECK(context, real({&factors, &b, &out}) && has_matrices(factors, true) && has_matrices(b),
           "expected matrices of float32 or float64");
  const std::int64_t size = factors.size(factors.dim() - 1);
  MB_CHECK(context, swaps.dim() >= 1 && swaps.size(swaps.dim() - 1) == size, "pivots: expected those of the matrices");
  MB_CHECK(context, b.size(b.dim() - (left ? 2 : 1)) == size, "B: a size that doesn't fit");
  const std::optional<Sizes> batch = broadcast(leading(factors), leading(b));
  MB_CHECK(context, batch && broadcast(*batch, leading(swaps, 1)) == batch, "expected batches of one size");
  MB_CHECK(context, resize(out, joined(*batch, {b.size(b.dim() - 2), b.size(b.dim() - 1)})), "out: no room");
  const Batches from(factors, *batch);
  const Batches from_swaps(swaps, *batch, 1);
  const Batches from_b(b, *batch);
  Batches to(out, *batch);
  for (std::int64_t number = 0; number < product(*batch); ++number) {
    const Matrix given = from_swaps.read(number);
    MB_CHECK(context, in_range(given, size), "pivots: expected numbers of rows, from 1 on");
    Matrix x = left ? from_b.read(number) : from_b.read(number).transposed();
    solve(from.read(number), given, left == adjoint, x);
    to.write(number, left ? x : x.transposed());
  }
}

const Registration kFactor("aten::linalg_lu_factor_ex.out", factor);
const Registration kDecompose("aten::linalg_lu.out", decompose);
const Registration kUnpack("aten::lu_unpack.out", unpack);
const Registration kSolve("aten::linalg_lu_solve.out", solve_factored);

}  // namespace
}  // namespace modelbuild::kernels
