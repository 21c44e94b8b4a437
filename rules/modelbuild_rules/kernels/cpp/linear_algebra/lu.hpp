// The LU factorization with partial pivoting: Gaussian elimination that takes the largest number of a column.
#pragma once

#include <cmath>

#include "matrix.hpp"

namespace modelbuild::kernels {

struct Lu {
  Matrix factors;  // L without its diagonal of ones, and U
  Matrix swaps;    // of each step: the row swapped with the step's, counted from 1
  int zero = 0;    // the first column without a pivot, counted from 1
};

inline Lu lu_of(Matrix a) {
  const std::int64_t steps = std::min(a.rows(), a.columns());
  Matrix swaps(steps, 1);
  int zero = 0;
  for (std::int64_t k = 0; k < steps; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < a.rows(); ++i) {
      if (std::fabs(a(i, k)) > std::fabs(a(pivot, k))) pivot = i;
    }
    swaps(k, 0) = static_cast<double>(pivot + 1);
    if (a(pivot, k) == 0) {
      if (zero == 0) zero = static_cast<int>(k + 1);
      continue;
    }
    a.swap_rows(k, pivot);
    for (std::int64_t i = k + 1; i < a.rows(); ++i) {
      a(i, k) /= a(k, k);
      a.add_row(i, -a(i, k), a, k, k + 1);
    }
  }
  return {std::move(a), std::move(swaps), zero};
}

// Factors each matrix of A, or its transpose, and stores the factors. `info` receives the first columns without pivots,
// which fail the operator with `check`. `act` is called with the number of each matrix and its factorization.
template <typename Function>
void factor_each(KernelRuntimeContext& context, const Tensor& a, bool transposed, Tensor& factors, Tensor& swaps,
                 Tensor* info, bool check, Function&& act) {
  MB_CHECK(context, real({&a, &factors}) && has_matrices(a), "A: expected matrices of float32 or float64");
  const Sizes batch = leading(a);
  const std::int64_t rows = a.size(a.dim() - 2);
  const std::int64_t columns = a.size(a.dim() - 1);
  MB_CHECK(context,
           resize(factors, joined(batch, {rows, columns})) && resize(swaps, joined(batch, {std::min(rows, columns)})) &&
               (info == nullptr || resize(*info, batch)),
           "no room for the factors");
  const Batches from(a, batch);
  Batches to(factors, batch);
  Batches to_swaps(swaps, batch, 1);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    const Lu lu = lu_of(transposed ? from.read(number).transposed() : from.read(number));
    MB_CHECK(context, !check || lu.zero == 0, "A: a singular matrix");
    to.write(number, lu.factors);
    to_swaps.write(number, lu.swaps);
    if (info != nullptr) Batches(*info, batch, 0).write(number, lu.zero);
    act(number, lu);
  }
}

// Swaps rows as a factorization did, or back.
inline void swap(const Matrix& swaps, bool back, Matrix& rows) {
  for (std::int64_t step = 0; step < swaps.rows(); ++step) {
    const std::int64_t k = back ? swaps.rows() - 1 - step : step;
    rows.swap_rows(k, static_cast<std::int64_t>(swaps(k, 0)) - 1);
  }
}

// Returns whether swaps name rows of a matrix.
inline bool in_range(const Matrix& swaps, std::int64_t rows) {
  for (std::int64_t i = 0; i < swaps.rows(); ++i) {
    if (!(swaps(i, 0) >= 1 && swaps(i, 0) <= static_cast<double>(rows))) return false;
  }
  return swaps.rows() <= rows;
}

// Solves A X = B, or the same with A's transpose, by A's factors. B becomes X.
inline void solve(const Matrix& factors, const Matrix& swaps, bool transposed, Matrix& b) {
  if (!transposed) swap(swaps, false, b);
  for (const bool upper : {transposed, !transposed}) substitute(factors, {upper, transposed, !upper}, b);
  if (transposed) swap(swaps, true, b);
}

// Returns the permutation matrix P of A = P L U.
inline Matrix permutation(const Matrix& swaps, std::int64_t rows) {
  Matrix result = Matrix::identity(rows);
  swap(swaps, true, result);
  return result;
}

// Returns L, of ones on the diagonal, or U.
inline Matrix lower_of(const Matrix& factors) {
  Matrix result(factors.rows(), std::min(factors.rows(), factors.columns()));
  for (std::int64_t i = 0; i < result.rows(); ++i) {
    for (std::int64_t j = 0; j < std::min(i, result.columns()); ++j) result(i, j) = factors(i, j);
    if (i < result.columns()) result(i, i) = 1;
  }
  return result;
}

inline Matrix upper_of(const Matrix& factors) {
  Matrix result(std::min(factors.rows(), factors.columns()), factors.columns());
  for (std::int64_t i = 0; i < result.rows(); ++i) {
    for (std::int64_t j = i; j < result.columns(); ++j) result(i, j) = factors(i, j);
  }
  return result;
}

}  // namespace modelbuild::kernels
