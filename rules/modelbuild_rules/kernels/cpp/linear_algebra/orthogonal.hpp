// Orthogonal transformations of matrices' rows, and the matrices of two diagonals that rotations make diagonal.
#pragma once

#include <limits>

#include "matrix.hpp"

namespace modelbuild::kernels {

// Makes the reflection H = I - tau v v^T (Golub & Van Loan, algorithm 5.1.1) that maps a column, from a row on, to its
// first element. Stores that and, as LAPACK, v below it, whose own first element is 1. Returns tau.
inline double make_reflection(Matrix& a, std::int64_t row, std::int64_t column) {
  double below = 0;
  for (std::int64_t i = row + 1; i < a.rows(); ++i) below = std::hypot(below, a(i, column));
  if (below == 0) return 0;
  const double first = a(row, column);
  const double length = -std::copysign(std::hypot(first, below), first);  // the sign avoids cancellation
  a(row, column) = length;
  for (std::int64_t i = row + 1; i < a.rows(); ++i) a(i, column) /= first - length;
  return (length - first) / length;
}

// Reflects the columns of a matrix, from `start` on, by the reflection that another, or the same, stores.
inline void reflect(const Matrix& v, std::int64_t row, std::int64_t column, double tau, Matrix& a,
                    std::int64_t start = 0) {
  for (std::int64_t j = start; j < a.columns() && tau != 0; ++j) {
    double sum = a(row, j);
    for (std::int64_t i = row + 1; i < v.rows(); ++i) sum += v(i, column) * a(i, j);
    a(row, j) -= tau * sum;
    for (std::int64_t i = row + 1; i < v.rows(); ++i) a(i, j) -= tau * sum * v(i, column);
  }
}

// Returns the first rows of a matrix.
inline Matrix rows_of(const Matrix& matrix, std::int64_t count) {
  Matrix result(count, matrix.columns());
  for (std::int64_t i = 0; i < count; ++i) result.add_row(i, 1, matrix, i);
  return result;
}

// Returns the first rows of a matrix that also stores reflections, without these.
inline Matrix upper_rows(const Matrix& a, std::int64_t count) {
  Matrix result(count, a.columns());
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = i; j < a.columns(); ++j) result(i, j) = a(i, j);
  }
  return result;
}

// Turns a matrix into R of its QR factorization and, below, the reflections. Applies these to `rows`, too. Returns the
// reflections' taus.
inline Matrix factor(Matrix& a, Matrix& rows) {
  Matrix taus(std::min(a.rows(), a.columns()), 1);
  for (std::int64_t k = 0; k < taus.rows(); ++k) {
    taus(k, 0) = make_reflection(a, k, k);
    reflect(a, k, k, taus(k, 0), a, k + 1);
    reflect(a, k, k, taus(k, 0), rows);
  }
  return taus;
}

// A rotation of two rows that maps a vector to (r, 0).
struct Rotation {
  double c = 1;
  double s = 0;
  double r = 0;
};

// Returns the rotation that maps (f, g), with the signs of lartg of LAPACK since 3.10.
inline Rotation rotation(double f, double g) {
  if (g == 0) return {1, 0, f};
  const double r = f < 0 ? -std::hypot(f, g) : std::hypot(f, g);
  return {f / r, g / r, r};
}

inline void rotate(Matrix& rows, std::int64_t one, std::int64_t other, Rotation by) {
  for (std::int64_t j = 0; j < rows.columns(); ++j) {
    const double x = rows(one, j);
    const double y = rows(other, j);
    rows(one, j) = by.c * x + by.s * y;
    rows(other, j) = by.c * y - by.s * x;
  }
}

inline void negate(Matrix& rows, std::int64_t row) {
  for (std::int64_t j = 0; j < rows.columns(); ++j) rows(row, j) = -rows(row, j);
}

// The diagonal of a matrix, and the one beside it.
class Band {
 public:
  explicit Band(std::int64_t size) : values_(2, size) {}
  std::int64_t size() const { return values_.columns(); }
  double& d(std::int64_t i) { return values_(0, i); }
  double& e(std::int64_t i) { return values_(1, i); }

  void fill(double value) {
    for (std::int64_t i = 0; i < size(); ++i) d(i) = value;
  }

  Matrix diagonal() const {
    Matrix result(size(), 1);
    for (std::int64_t i = 0; i < size(); ++i) result(i, 0) = values_(0, i);
    return result;
  }

 private:
  Matrix values_;
};

// The rows of a band from `first` to `last`, in this order or the reverse.
struct Block {
  std::int64_t at(std::int64_t i) const { return reversed ? last - i : first + i; }
  double& d(std::int64_t i) const { return band->d(at(i)); }
  double& e(std::int64_t i) const { return band->e(std::min(at(i), at(i + 1))); }
  std::int64_t end() const { return last - first; }

  Band* band;
  std::int64_t first;
  std::int64_t last;
  bool reversed;
};

// Returns the relative error of a rounded number of a type.
inline double rounding(ScalarType type) {
  return (type == ScalarType::Float ? double{std::numeric_limits<float>::epsilon()}
                                    : std::numeric_limits<double>::epsilon()) /
         2;
}

}  // namespace modelbuild::kernels
