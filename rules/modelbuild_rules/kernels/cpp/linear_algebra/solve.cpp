// Functions of square matrices by LU factors: aten::linalg_inv_ex, _linalg_solve_ex, _linalg_det and _linalg_slogdet.
// As in eager mode, those of inverses and determinants are the factors of the transpose. A singular matrix gives
// infinities and NaN.
#include "lu.hpp"

namespace modelbuild::kernels {
namespace {

// aten::linalg_inv_ex(Tensor A, *, bool check_errors) -> (Tensor inverse, Tensor info)
void inverse(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  const bool check = arguments[1]->toBool();
  Tensor& out = arguments[2]->toTensor();
  Tensor& info = arguments[3]->toTensor();
  MB_CHECK(context, real({&a, &out}) && has_matrices(a, true), "A: expected square matrices of float32 or float64");
  const Sizes batch = leading(a);
  MB_CHECK(context, resize(out, {a.sizes().begin(), a.sizes().end()}) && resize(info, batch), "no room");
  const Batches from(a, batch);
  Batches to(out, batch);
  Batches to_info(info, batch, 0);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    const Lu lu = lu_of(from.read(number).transposed());
    MB_CHECK(context, !check || lu.zero == 0, "A: a singular matrix");
    Matrix x = Matrix::identity(a.size(a.dim() - 1));
    solve(lu.factors, lu.swaps, true, x);
    to.write(number, x);
    to_info.write(number, lu.zero);
  }
}

// aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left, bool check_errors)
//     -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)
void solve_system(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  const Tensor& b = arguments[1]->toTensor();
  const bool left = arguments[2]->toBool();
  Tensor& out = arguments[4]->toTensor();
  MB_CHECK(context, real({&a, &b, &out}) && has_matrices(a, true), "A: expected square matrices of float32 or float64");
  const Sizes own = leading(a);
  const std::int64_t size = a.size(a.dim() - 1);
  // B contains vectors if it is one, or has the sizes of vectors of A's batches.
  const Sizes given(b.sizes().begin(), b.sizes().end());
  const std::size_t trailing = given.size() == 1 || given == joined(own, {size}) ? 1 : 2;
  MB_CHECK(context, given.size() >= trailing && (left || trailing == 2), "B: expected matrices");
  MB_CHECK(context, given[given.size() - (left ? trailing : 1)] == size, "B: a size that doesn't fit");
  const std::optional<Sizes> batch = broadcast(own, leading(b, trailing));
  MB_CHECK(context, batch, "expected batches of one size");
  Sizes sizes = *batch;
  sizes.insert(sizes.end(), given.end() - static_cast<std::ptrdiff_t>(trailing), given.end());
  MB_CHECK(context, resize(out, sizes), "out: no room for the result");
  factor_each(context, a, false, arguments[5]->toTensor(), arguments[6]->toTensor(), &arguments[7]->toTensor(),
              arguments[3]->toBool(), [](std::int64_t, const Lu&) {});
  if (context.failure_state() != Error::Ok) return;
  const Batches from_a(a, *batch);
  const Batches from_b(b, *batch, trailing);
  Batches to(out, *batch, trailing);
  for (std::int64_t number = 0; number < product(*batch); ++number) {
    // Again, since the factors above are rounded.
    const Lu lu = lu_of(from_a.read(number));
    Matrix x = left ? from_b.read(number) : from_b.read(number).transposed();
    solve(lu.factors, lu.swaps, !left, x);
    to.write(number, left ? x : x.transposed());
  }
}

struct Determinant {
  double value = 1;
  double sign = 1;
  double log = 0;
};

Determinant determinant(const Lu& lu) {
  Determinant result;
  for (std::int64_t i = 0; i < lu.factors.rows(); ++i) {
    const double swapped = lu.swaps(i, 0) == static_cast<double>(i + 1) ? 1 : -1;
    const double x = lu.factors(i, i);
    result.value *= swapped * x;
    result.sign *= swapped * (x > 0 ? 1 : x < 0 ? -1 : 0);
    result.log += std::log(std::fabs(x));
  }
  return result;
}

// aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)
void det(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  Tensor& out = arguments[1]->toTensor();
  MB_CHECK(context, has_matrices(a, true) && resize(out, leading(a)), "A: expected square matrices");
  Batches to(out, leading(a), 0);
  factor_each(context, a, true, arguments[2]->toTensor(), arguments[3]->toTensor(), nullptr, false,
              [&](std::int64_t number, const Lu& lu) { to.write(number, determinant(lu).value); });
}

// aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)
void slogdet(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  Tensor& sign = arguments[1]->toTensor();
  Tensor& log = arguments[2]->toTensor();
  MB_CHECK(context, has_matrices(a, true) && resize(sign, leading(a)) && resize(log, leading(a)),
           "A: expected square matrices");
  Batches to_sign(sign, leading(a), 0);
  Batches to_log(log, leading(a), 0);
  factor_each(context, a, true, arguments[3]->toTensor(), arguments[4]->toTensor(), nullptr, false,
              [&](std::int64_t number, const Lu& lu) {
                const Determinant found = determinant(lu);
                to_sign.write(number, found.sign);
                to_log.write(number, found.log);
              });
}

const Registration kInverse("aten::linalg_inv_ex.inverse", inverse);
const Registration kSolve("aten::_linalg_solve_ex.result", solve_system);
const Registration kDet("aten::_linalg_det.result", det);
const Registration kSlogdet("aten::_linalg_slogdet.sign", slogdet);

}  // namespace
}  // namespace modelbuild::kernels
