// aten::_linalg_svd(Tensor A, bool full_matrices, bool compute_uv, *, str? driver) -> (Tensor U, Tensor S, Tensor Vh):
// the singular value decomposition, by bidiagonal matrices and implicit QR iterations (Golub & Van Loan, algorithms
// 5.4.2 and 8.6.1; without shifts: Demmel & Kahan, Accurate singular values of bidiagonal matrices). The steps are
// those of LAPACK's gesdd, gebrd and bdsqr, and their precision is that of the tensors' type, because the vectors'
// signs follow from them. Eager mode with MKL has the same signs for matrices of up to 25 rows or columns, beyond which
// it divides and conquers.
#include "orthogonal.hpp"

namespace modelbuild::kernels {
namespace {

// Singular values of a matrix A, and its singular vectors as rows. As in eager mode, the values of one with infinities
// are NaN, and one with NaN has none.
class Svd {
 public:
  Svd(Matrix a, double epsilon)
      : band_(std::min(a.rows(), a.columns())),
        left_(Matrix::identity(a.rows())),
        right_(Matrix::identity(a.columns())),
        epsilon_(epsilon),
        tolerance_(epsilon * std::clamp(std::pow(epsilon, -0.125), 10.0, 100.0)),
        budget_(6 * band_.size() * band_.size()) {
    const double size = norm(a);
    if (std::isfinite(size)) {
      reduce(std::move(a));
      diagonalize();
      sort();
    } else {
      band_.fill(std::numeric_limits<double>::quiet_NaN());
      if (std::isnan(size)) budget_ = -1;
    }
  }

  bool converged() const { return budget_ >= 0; }
  Matrix values() const { return band_.diagonal(); }
  const Matrix& left() const { return left_; }
  const Matrix& right() const { return right_; }

 private:
  // Makes the matrix upper bidiagonal. Tall ones become triangular first, from MKL's ratio on.
  void reduce(Matrix a) {
    const std::int64_t size = band_.size();
    if (a.rows() < a.columns()) {
      reduce(a.transposed(), right_, left_);
      for (std::int64_t i = 0; i + 1 < size; ++i) {
        const Rotation by = rotation(band_.d(i), band_.e(i));
        band_.d(i) = by.r;
        band_.e(i) = by.s * band_.d(i + 1);
        band_.d(i + 1) *= by.c;
        rotate(left_, i, i + 1, by);
      }
      return;
    }
    if (size > 0 && a.rows() >= size * 3 / 2) {
      factor(a, left_);
      a = upper_rows(a, size);
    }
    reduce(std::move(a), left_, right_);
  }

  void reduce(Matrix a, Matrix& left, Matrix& right) {
    for (std::int64_t k = 0; k < a.columns(); ++k) {
      const double tau = make_reflection(a, k, k);
      reflect(a, k, k, tau, a, k + 1);
      reflect(a, k, k, tau, left);
      band_.d(k) = a(k, k);
      if (k + 1 == a.columns()) return;
      Matrix other = a.transposed();
      const double other_tau = make_reflection(other, k + 1, k);
      reflect(other, k + 1, k, other_tau, other, k + 1);
      reflect(other, k + 1, k, other_tau, right);
      band_.e(k) = other(k + 1, k);
      a = other.transposed();
    }
  }

  // Values that don't converge in time leave no budget.
  void diagonalize() {
    const double threshold = negligible();
    Block block{&band_, 0, -1, false};
    for (std::int64_t last = band_.size() - 1; last > 0 && budget_ >= 0;) {
      std::int64_t first = last;
      double largest = std::fabs(band_.d(last));
      for (; first > 0 && !(std::fabs(band_.e(first - 1)) <= threshold); --first) {
        largest = std::max({largest, std::fabs(band_.d(first - 1)), std::fabs(band_.e(first - 1))});
      }
      if (first > 0) band_.e(first - 1) = 0;
      if (last <= first + 1) {
        if (first < last) diagonalize_pair(first);
        last = first - 1;
        continue;
      }
      // The larger end comes first, except in a part of the last block.
      const bool reversed = first > block.last || last < block.first
                                ? std::fabs(band_.d(first)) < std::fabs(band_.d(last))
                                : block.reversed;
      const Block next{&band_, first, last, reversed};
      const std::optional<double> smallest = estimate(next);
      if (!smallest) continue;
      block = next;
      budget_ -= block.end();
      if (const double shift = shift_of(block, *smallest / largest); shift != 0) {
        sweep(block, shift);
      } else {
        sweep(block);
      }
    }
  }

  // Returns the largest number beside the diagonal that counts as zero.
  double negligible() {
    const auto size = static_cast<double>(band_.size());
    double least = size > 0 ? std::fabs(band_.d(0)) : 0;
    double bound = least;
    for (std::int64_t i = 1; i < band_.size() && least > 0; ++i) {
      bound = std::fabs(band_.d(i)) * (bound / (bound + std::fabs(band_.e(i - 1))));
      least = std::min(least, bound);
    }
    return size > 0 ? std::max(tolerance_ * least / std::sqrt(size), std::numeric_limits<double>::min()) : 0;
  }

  // Returns an estimate of a block's smallest singular value; nothing if the block splits.
  std::optional<double> estimate(const Block& block) const {
    const std::int64_t end = block.end();
    if (std::fabs(block.e(end - 1)) <= tolerance_ * std::fabs(block.d(end))) {
      block.e(end - 1) = 0;
      return std::nullopt;
    }
    double bound = std::fabs(block.d(0));
    double least = bound;
    for (std::int64_t i = 0; i < end; ++i) {
      if (std::fabs(block.e(i)) <= tolerance_ * bound) {
        block.e(i) = 0;
        return std::nullopt;
      }
      bound = std::fabs(block.d(i + 1)) * (bound / (bound + std::fabs(block.e(i))));
      least = std::min(least, bound);
    }
    return least;
  }

  // Returns 0 where a shift would lose the precision of small values.
  double shift_of(const Block& block, double ratio) const {
    const auto size = static_cast<double>(band_.size());
    if (size * tolerance_ * ratio <= std::max(epsilon_, 0.01 * tolerance_)) return 0;
    const std::int64_t end = block.end();
    const double shift = std::fabs(pair_of(block.d(end - 1), block.e(end - 1), block.d(end)).smallest);
    const double part = shift / std::fabs(block.d(0));
    return part * part < epsilon_ ? 0 : shift;
  }

  void sweep(const Block& block, double shift) {
    double f = (std::fabs(block.d(0)) - shift) * (std::copysign(1, block.d(0)) + shift / block.d(0));
    double g = block.e(0);
    for (std::int64_t i = 0; i < block.end(); ++i) {
      const Rotation one = rotation(f, g);
      if (i > 0) block.e(i - 1) = one.r;
      f = one.c * block.d(i) + one.s * block.e(i);
      block.e(i) = one.c * block.e(i) - one.s * block.d(i);
      g = one.s * block.d(i + 1);
      block.d(i + 1) *= one.c;
      const Rotation other = rotation(f, g);
      block.d(i) = other.r;
      f = other.c * block.e(i) + other.s * block.d(i + 1);
      block.d(i + 1) = other.c * block.d(i + 1) - other.s * block.e(i);
      if (i + 1 < block.end()) {
        g = other.s * block.e(i + 1);
        block.e(i + 1) *= other.c;
      }
      rotate_both(block, i, one, other);
    }
    block.e(block.end() - 1) = f;
  }

  void sweep(const Block& block) {
    const std::int64_t end = block.end();
    Rotation one;
    Rotation other;
    for (std::int64_t i = 0; i < end; ++i) {
      one = rotation(block.d(i) * one.c, block.e(i));
      if (i > 0) block.e(i - 1) = other.s * one.r;
      other = rotation(other.c * one.r, block.d(i + 1) * one.s);
      block.d(i) = other.r;
      rotate_both(block, i, one, other);
    }
    const double h = block.d(end) * one.c;
    block.d(end) = h * other.c;
    block.e(end - 1) = h * other.s;
  }

  // A reversed block is the transpose of an upper bidiagonal one.
  void rotate_both(const Block& block, std::int64_t i, Rotation one, Rotation other) {
    rotate(block.reversed ? left_ : right_, block.at(i), block.at(i + 1), one);
    rotate(block.reversed ? right_ : left_, block.at(i), block.at(i + 1), other);
  }

  struct Pair {
    double largest = 0;
    double smallest = 0;
    Rotation left;
    Rotation right;
  };

  // Returns the decomposition of (f g; 0 h), with the signs of LAPACK's lasv2.
  static Pair pair_of(double f, double g, double h) {
    if (std::fabs(f) < std::fabs(h)) {
      const Pair other = pair_of(h, g, f);
      return {other.largest, other.smallest, {other.right.s, other.right.c, 0}, {other.left.s, other.left.c, 0}};
    }
    const double scale = std::max(std::fabs(f), std::fabs(g));
    if (!(scale > 0)) return {f, h, {}, {}};
    const double angle =
        std::atan2(2 * (f / scale) * (g / scale), (f - h) / scale * ((f + h) / scale) - g / scale * (g / scale)) / 2;
    const Rotation right{std::cos(angle), std::sin(angle), 0};
    const double x = f * right.c + g * right.s;
    const double y = h * right.s;
    const double largest = std::copysign(std::hypot(x, y), f);
    return {largest, h * (f / largest), {x / largest, y / largest, 0}, right};
  }

  void diagonalize_pair(std::int64_t i) {
    const Pair pair = pair_of(band_.d(i), band_.e(i), band_.d(i + 1));
    band_.d(i) = pair.largest;
    band_.d(i + 1) = pair.smallest;
    band_.e(i) = 0;
    rotate(right_, i, i + 1, pair.right);
    rotate(left_, i, i + 1, pair.left);
  }

  // Makes the values positive, and sorts them in descending order.
  void sort() {
    for (std::int64_t i = 0; i < band_.size(); ++i) {
      if (!(band_.d(i) < 0)) continue;
      band_.d(i) = -band_.d(i);
      negate(band_.size() == 1 ? left_ : right_, i);
    }
    for (std::int64_t end = band_.size() - 1; end > 0; --end) {
      std::int64_t least = 0;
      for (std::int64_t j = 1; j <= end; ++j) {
        if (band_.d(j) <= band_.d(least)) least = j;
      }
      std::swap(band_.d(end), band_.d(least));
      left_.swap_rows(end, least);
      right_.swap_rows(end, least);
    }
  }

  Band band_;
  Matrix left_;
  Matrix right_;
  double epsilon_;
  double tolerance_;
  std::int64_t budget_;
};

void svd(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& a = arguments[0]->toTensor();
  const bool full = arguments[1]->toBool();
  const bool wanted = arguments[2]->toBool();
  Tensor& u = arguments[4]->toTensor();
  Tensor& s = arguments[5]->toTensor();
  Tensor& v = arguments[6]->toTensor();
  MB_CHECK(context, real({&a, &u, &s, &v}) && has_matrices(a), "A: expected matrices of float32 or float64");
  const Sizes batch = leading(a);
  const std::int64_t rows = a.size(a.dim() - 2);
  const std::int64_t columns = a.size(a.dim() - 1);
  const std::int64_t size = std::min(rows, columns);
  const std::int64_t left = full ? rows : size;
  const std::int64_t right = full ? columns : size;
  MB_CHECK(context,
           resize(u, wanted ? joined(batch, {rows, left}) : Sizes{0}) && resize(s, joined(batch, {size})) &&
               resize(v, wanted ? joined(batch, {right, columns}) : Sizes{0}),
           "no room for the results");
  const Batches from(a, batch);
  Batches to_s(s, batch, 1);
  for (std::int64_t number = 0; number < product(batch); ++number) {
    const Svd found(from.read(number), rounding(a.scalar_type()));
    MB_CHECK(context, found.converged(), "A: a matrix whose singular values don't converge");
    to_s.write(number, found.values());
    if (!wanted) continue;
    Batches(u, batch).write(number, rows_of(found.left(), left).transposed());
    Batches(v, batch).write(number, rows_of(found.right(), right));
  }
}

const Registration kSvd("aten::_linalg_svd.U", svd);

}  // namespace
}  // namespace modelbuild::kernels
