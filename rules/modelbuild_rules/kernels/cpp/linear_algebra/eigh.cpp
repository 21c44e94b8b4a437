// aten::_linalg_eigh(Tensor A, str UPLO, bool compute_v) -> (Tensor eigenvalues, Tensor eigenvectors):
// Eigenvalues and eigenvectors of symmetric matrices, by tridiagonal matrices and implicit QL or QR iterations with
// Wilkinson's shift (Golub & Van Loan, algorithms 8.3.1 and 8.3.3). The steps are those of LAPACK's sytrd and steqr,
// and their precision is that of the tensors' type, because the vectors' signs follow from them. Eager mode with MKL
// has the same signs for matrices of up to 25 rows, beyond which it divides and conquers.
#include "orthogonal.hpp"

namespace modelbuild::kernels {
namespace {

// Returns a matrix with its rows and columns in reverse order.
Matrix reversed(const Matrix& a) {
  Matrix result(a.rows(), a.columns());
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = 0; j < a.columns(); ++j) result(i, j) = a(a.rows() - 1 - i, a.columns() - 1 - j);
  }
  return result;
}

// Returns the matrix with this one's lower triangle.
Matrix symmetric(Matrix a) {
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = 0; j < i; ++j) a(j, i) = a(i, j);
  }
  return a;
}

// The eigenvalues of a matrix A, and its eigenvectors as rows.
class Eigen {
 public:
  // Reads only one triangle of A. With infinities or NaN in it, all values are NaN.
  Eigen(const Matrix& a, bool upper, double epsilon)
      : band_(a.rows()), rows_(Matrix::identity(a.rows())), epsilon_(epsilon), sweeps_(30 * a.rows()) {
    const Matrix given = symmetric(upper ? reversed(a) : a);
    if (!std::isfinite(norm(given))) {
      band_.fill(std::numeric_limits<double>::quiet_NaN());
      return;
    }
    reduce(given, upper);
    if (upper) rows_ = reversed(rows_);
    const Block whole{&band_, 0, band_.size() - 1, false};
    for (std::int64_t first = 0; first < band_.size() && converged_;) {
      std::int64_t last = first;
      while (last < whole.last && !splits(whole, last)) ++last;
      const bool down = std::fabs(band_.d(last)) < std::fabs(band_.d(first));
      converged_ = diagonalize({&band_, first, last, down});
      first = last + 1;
    }
    sort();
  }

  bool converged() const { return converged_; }
  Matrix values() const { return band_.diagonal(); }
  const Matrix& rows() const { return rows_; }

 private:
  // Makes the matrix tridiagonal by reflections. `upper` reverses the result.
  void reduce(Matrix a, bool upper) {
    const Block whole{&band_, 0, a.rows() - 1, upper};
    for (std::int64_t k = 0; k < a.rows(); ++k) {
      whole.d(k) = a(k, k);
      if (k == a.rows() - 1) break;
      const double tau = make_reflection(a, k + 1, k);
      whole.e(k) = a(k + 1, k);
      reflect(a, k + 1, k, tau, rows_);
      reflect(a, k + 1, k, tau, a, k + 1);
      Matrix other = a.transposed();
      reflect(a, k + 1, k, tau, other, k + 1);
      a = other;
    }
  }

  // Returns whether the matrix splits into two below a row.
  bool splits(const Block& block, std::int64_t i) const {
    return std::fabs(block.e(i)) <= epsilon_ * std::sqrt(std::fabs(block.d(i))) * std::sqrt(std::fabs(block.d(i + 1)));
  }

  // Returns whether the values converged in time.
  bool diagonalize(const Block& block) {
    for (std::int64_t l = 0; l <= block.end();) {
      std::int64_t m = l;
      while (m < block.end() && !splits(block, m)) ++m;
      if (m < block.end()) block.e(m) = 0;
      if (m <= l + 1) {
        if (m == l + 1) diagonalize_pair(std::min(block.at(l), block.at(m)));
        l = m + 1;
        continue;
      }
      if (sweeps_-- == 0) return false;
      sweep(block, l, m);
    }
    return true;
  }

  void sweep(const Block& block, std::int64_t l, std::int64_t m) {
    double g = (block.d(l + 1) - block.d(l)) / (2 * block.e(l));
    g = block.d(m) - block.d(l) + block.e(l) / (g + std::copysign(std::hypot(g, 1), g));
    Rotation by{1, 1, 0};
    double p = 0;
    for (std::int64_t i = m - 1; i >= l; --i) {
      const double b = by.c * block.e(i);
      by = older_rotation(g, by.s * block.e(i));
      if (i < m - 1) block.e(i + 1) = by.r;
      g = block.d(i + 1) - p;
      const double r = (block.d(i) - g) * by.s + 2 * by.c * b;
      p = by.s * r;
      block.d(i + 1) = g + p;
      g = by.c * r - b;
      rotate(rows_, block.at(i + 1), block.at(i), by);
    }
    block.d(l) -= p;
    block.e(l) = g;
  }

  // As lartg of LAPACK before 3.10.
  static Rotation older_rotation(double f, double g) {
    const Rotation by = rotation(f, g);
    const bool other = f == 0 ? g < 0 : f < 0 && g != 0 && -f <= std::fabs(g);
    return other ? Rotation{-by.c, -by.s, -by.r} : by;
  }

  // As LAPACK's laev2: the value of the larger magnitude comes first.
  void diagonalize_pair(std::int64_t i) {
    const double a = band_.d(i);
    const double b = band_.e(i);
    const double c = band_.d(i + 1);
    const double sign = a + c < 0 ? -1 : 1;
    const double other_sign = a - c < 0 ? -1 : 1;
    const double root = std::hypot(a - c, 2 * b);
    const double value = (a + c + sign * root) / 2;
    const auto [small, large] = std::minmax(a, c, [](double x, double y) { return std::fabs(x) < std::fabs(y); });
    band_.d(i) = value;
    band_.d(i + 1) = a + c == 0 ? -value : large / value * small - b / value * b;
    band_.e(i) = 0;
    Rotation by{-2 * b, a - c + other_sign * root, 0};
    by.r = std::hypot(by.c, by.s);
    if ((std::fabs(by.s) > std::fabs(by.c) ? by.s : by.c) < 0) by.r = -by.r;
    by = by.r == 0 ? Rotation{} : Rotation{by.c / by.r, by.s / by.r, 0};
    rotate(rows_, i, i + 1, sign == other_sign ? Rotation{-by.s, by.c, 0} : by);
  }

  void sort() {
    for (std::int64_t i = 0; i < band_.size(); ++i) {
      std::int64_t least = i;
      for (std::int64_t j = i + 1; j < band_.size(); ++j) {
        if (band_.d(j) < band_.d(least)) least = j;
      }
      std::swap(band_.d(i), band_.d(least));
      rows_.swap_rows(i, least);
    }
  }

  Band band_;
  Matrix rows_;
  double epsilon_;
  std::int64_t sweeps_;
  bool converged_ = true;
};

void eigh(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  const auto triangle = arguments[1]->toString();
  const bool wanted = arguments[2]->toBool();
  Tensor& values = arguments[3]->toTensor();
  Tensor& vectors = arguments[4]->toTensor();
  MB_CHECK(context, real({&a, &values, &vectors}) && has_matrices(a, true),
           "A: expected square matrices of float32 or float64");
  MB_CHECK(context, triangle.size() == 1, "UPLO: expected L or U");
  const bool upper = triangle[0] == 'U' || triangle[0] == 'u';
  const Sizes batch = leading(a);
  const std::int64_t size = a.size(a.dim() - 1);
  MB_CHECK(context,
           resize(values, joined(batch, {size})) && resize(vectors, wanted ? joined(batch, {size, size}) : Sizes{0}),
           "no room for the results");
  const Batches from(a, batch);
  Batches to_values(values, batch, 1);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    const Eigen found(from.read(number), upper, rounding(a.scalar_type()));
    MB_CHECK(context, found.converged(), "A: a matrix whose eigenvalues don't converge");
    to_values.write(number, found.values());
    if (wanted) Batches(vectors, batch).write(number, found.rows().transposed());
  }
}

const Registration kEigh("aten::_linalg_eigh.eigenvalues", eigh);

}  // namespace
}  // namespace modelbuild::kernels
