// Matrices of linear algebra: read from tensors as double, computed with, and stored in the tensors' types.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "kernel.hpp"

namespace modelbuild::kernels {

// A matrix in row-major order.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), values_(static_cast<std::size_t>(rows * columns)) {}

  static Matrix identity(std::int64_t size) {
    Matrix result(size, size);
    for (std::int64_t i = 0; i < size; ++i) result(i, i) = 1;
    return result;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  double& operator()(std::int64_t i, std::int64_t j) { return values_[static_cast<std::size_t>(i * columns_ + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const {
    return values_[static_cast<std::size_t>(i * columns_ + j)];
  }

  Matrix transposed() const {
    Matrix result(columns_, rows_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j) result(j, i) = (*this)(i, j);
    }
    return result;
  }

  // Adds a multiple of a row, from a column on, to a row of this matrix.
  void add_row(std::int64_t to, double factor, const Matrix& other, std::int64_t from, std::int64_t start = 0) {
    for (std::int64_t j = start; j < columns_; ++j) (*this)(to, j) += factor * other(from, j);
  }

  void swap_rows(std::int64_t one, std::int64_t other) {
    if (one == other) return;
    for (std::int64_t j = 0; j < columns_; ++j) std::swap((*this)(one, j), (*this)(other, j));
  }

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<double> values_;
};

// Returns the largest sum of magnitudes in a row; NaN if there is one in the matrix.
inline double norm(const Matrix& a) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < a.columns(); ++j) sum += std::fabs(a(i, j));
    if (!(sum <= largest) && !std::isnan(largest)) largest = sum;
  }
  return largest;
}

// Returns a tensor's sizes without the last ones: those of its batches.
inline Sizes leading(const Tensor& tensor, std::size_t trailing = 2) {
  return {tensor.sizes().begin(), tensor.sizes().end() - static_cast<std::ptrdiff_t>(trailing)};
}

inline Sizes joined(Sizes batch, std::initializer_list<std::int64_t> trailing) {
  for (const std::int64_t size : trailing) batch.push_back(static_cast<executorch::aten::SizesType>(size));
  return batch;
}

inline std::int64_t product(const Sizes& sizes) {
  std::int64_t result = 1;
  for (const auto size : sizes) result *= size;
  return result;
}

// Returns whether all tensors have one type, of real floating-point numbers.
inline bool real(std::initializer_list<const Tensor*> tensors) {
  const ScalarType type = (*tensors.begin())->scalar_type();
  return (type == ScalarType::Float || type == ScalarType::Double) &&
         std::all_of(tensors.begin(), tensors.end(), [&](const Tensor* each) { return each->scalar_type() == type; });
}

// Returns whether a tensor contains matrices, square ones if asked.
inline bool has_matrices(const Tensor& tensor, bool square = false) {
  const auto count = tensor.dim();
  return count >= 2 && (!square || tensor.size(count - 1) == tensor.size(count - 2));
}

// The matrices of a tensor, whose batches are expanded to the sizes of others. With one trailing dimension its vectors,
// as columns, and with none its numbers. The tensor's elements may lie in any order of dimensions.
class Batches {
 public:
  Batches(const Tensor& tensor, const Sizes& batch, std::size_t trailing = 2) : tensor_(tensor), batch_(batch) {
    const auto own = static_cast<std::size_t>(tensor.dim()) - trailing;
    steps_.assign(batch.size(), 0);
    for (std::size_t i = 0; i < own; ++i) {
      if (tensor.sizes()[i] != 1) steps_[batch.size() - own + i] = tensor.strides()[i];
    }
    if (trailing > 0) {
      rows_ = tensor.sizes()[own];
      row_step_ = tensor.strides()[own];
    }
    if (trailing > 1) {
      columns_ = tensor.sizes()[own + 1];
      column_step_ = tensor.strides()[own + 1];
    }
  }

  Matrix read(std::int64_t number) const {
    Matrix result(rows_, columns_);
    visit(number, [&](auto& value, std::int64_t i, std::int64_t j) { result(i, j) = static_cast<double>(value); });
    return result;
  }

  void write(std::int64_t number, const Matrix& matrix) {
    visit(number, [&](auto& value, std::int64_t i, std::int64_t j) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(matrix(i, j));
    });
  }

  void write(std::int64_t number, double value) {
    Matrix matrix(1, 1);
    matrix(0, 0) = value;
    write(number, matrix);
  }

 private:
  template <typename Function>
  void visit(std::int64_t number, Function&& act) const {
    std::int64_t start = 0;
    for (std::size_t i = batch_.size(); i-- > 0; number /= batch_[i]) start += number % batch_[i] * steps_[i];
    with_any(tensor_.scalar_type(), [&](auto type) {
      auto* values = tensor_.mutable_data_ptr<decltype(type)>() + start;
      for (std::int64_t i = 0; i < rows_; ++i) {
        for (std::int64_t j = 0; j < columns_; ++j) act(values[i * row_step_ + j * column_step_], i, j);
      }
    });
  }

  Tensor tensor_;
  Sizes batch_;
  std::vector<std::int64_t> steps_;
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::int64_t row_step_ = 0;
  std::int64_t column_step_ = 0;
};

// How a triangular matrix is read.
struct Triangle {
  bool upper = false;
  bool transposed = false;
  bool unit = false;  // the diagonal counts as ones
};

// Solves A X = B, or the same with A's transpose, by substitution. B becomes X.
inline void substitute(const Matrix& a, Triangle how, Matrix& b) {
  const std::int64_t size = b.rows();
  const bool backward = how.upper != how.transposed;
  for (std::int64_t step = 0; step < size; ++step) {
    const std::int64_t i = backward ? size - 1 - step : step;
    for (std::int64_t k = backward ? i + 1 : 0; k < (backward ? size : i); ++k) {
      b.add_row(i, -(how.transposed ? a(k, i) : a(i, k)), b, k);
    }
    if (how.unit) continue;
    for (std::int64_t j = 0; j < b.columns(); ++j) b(i, j) /= a(i, i);
  }
}

}  // namespace modelbuild::kernels
