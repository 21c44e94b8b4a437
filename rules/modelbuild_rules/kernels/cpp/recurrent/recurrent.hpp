// The common part of recurrent nets' kernels: the steps of a sequence, and products of states with constant matrices.
//
// A kernel gets `gates`, the products of all inputs with their weights, and computes what depends on the step before.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernel.hpp"

namespace modelbuild::kernels {

template <typename S>
S sigmoid(S x) {
  return 1 / (1 + std::exp(-x));
}

// The elements of a tensor in the type of sums, copied only if theirs is another. Without a tensor, zeros.
template <typename T>
class Values {
 public:
  using S = Sum<T>;

  Values(const Tensor* tensor, std::int64_t count) {
    if (tensor == nullptr) {
      copy_.assign(static_cast<std::size_t>(count), 0);
    } else if constexpr (std::is_same_v<T, S>) {
      data_ = tensor->const_data_ptr<T>();
      return;
    } else {
      copy_.assign(tensor->const_data_ptr<T>(), tensor->const_data_ptr<T>() + count);
    }
    data_ = copy_.data();
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  const S* data() const { return data_; }

 private:
  std::vector<S> copy_;
  const S* data_ = nullptr;
};

// Writes products of kRows rows of a matrix with a vector. Each has kLanes sums, which processors add at once.
template <int kRows, typename S>
void dot(const S* matrix, std::int64_t columns, const S* vector, S* out) {
  constexpr int kLanes = 8;
  S sums[kRows][kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= columns; k += kLanes) {
    for (int row = 0; row < kRows; ++row) {
      for (int lane = 0; lane < kLanes; ++lane) {
        sums[row][lane] += matrix[row * columns + k + lane] * vector[k + lane];
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    S sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += sums[row][lane];
    for (std::int64_t rest = k; rest < columns; ++rest) sum += matrix[row * columns + rest] * vector[rest];
    out[row] = sum;
  }
}

// Writes the products of a matrix (rows x columns) with `count` vectors, which are one after another.
template <typename S>
void products(const S* matrix, std::int64_t rows, std::int64_t columns, const S* vectors, std::int64_t count, S* out) {
  constexpr int kRows = 4;
  std::int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    for (std::int64_t i = 0; i < count; ++i) {
      dot<kRows>(matrix + row * columns, columns, vectors + i * columns, out + i * rows + row);
    }
  }
  for (; row < rows; ++row) {
    for (std::int64_t i = 0; i < count; ++i) {
      dot<1>(matrix + row * columns, columns, vectors + i * columns, out + i * rows + row);
    }
  }
}

// The steps of a batch of sequences, from the last one on if `reverse`.
class Steps {
 public:
  // `gates` is batch x steps x values if `batch_first`, and steps x batch x values otherwise.
  Steps(const Tensor& gates, bool batch_first, bool reverse)
      : batch(gates.size(batch_first ? 0 : 1)),
        steps(gates.size(batch_first ? 1 : 0)),
        batch_first_(batch_first),
        reverse_(reverse) {}

  // Returns the row of gates, and of results, at the number-th step of a sequence.
  std::int64_t row(std::int64_t number, std::int64_t sequence) const {
    const std::int64_t step = reverse_ ? steps - 1 - number : number;
    return batch_first_ ? sequence * steps + step : step * batch + sequence;
  }

  std::int64_t batch;
  std::int64_t steps;

 private:
  bool batch_first_;
  bool reverse_;
};

inline const Tensor* optional_tensor(const EValue& value) { return value.isNone() ? nullptr : &value.toTensor(); }

// Returns why the tensors of a recurrent net do not fit together, as text; nullptr if they do.
//
// gates       steps x batch x (parts * units), or batch x steps x ... if `batch_first`
// weight      (parts * units) x states
// bias        parts * units, or none
// hidden      batch x states
inline const char* misfit(const Tensor& gates, const Tensor& weight, const Tensor* bias, const Tensor& hidden,
                          std::int64_t parts, bool batch_first) {
  if (gates.dim() != 3) return "gates: expected three dimensions";
  if (weight.dim() != 2 || weight.size(0) != gates.size(2) || weight.size(0) % parts != 0) {
    return "weight: expected a row for each gate";
  }
  if (bias != nullptr && (bias->dim() != 1 || bias->size(0) != gates.size(2))) {
    return "bias: expected a value for each gate";
  }
  const std::int64_t batch = gates.size(batch_first ? 0 : 1);
  if (hidden.dim() != 2 || hidden.size(0) != batch || hidden.size(1) != weight.size(1)) {
    return "hidden: expected a state for each sequence";
  }
  if (gates.size(batch_first ? 1 : 0) < 1) return "expected a sequence of one or more steps";
  for (const Tensor* each : {&weight, bias, &hidden}) {
    if (each != nullptr && each->scalar_type() != gates.scalar_type()) return "expected tensors of one type";
    if (each != nullptr && !row_major(*each)) return "expected row-major order";
  }
  return row_major(gates) ? nullptr : "gates: expected row-major order";
}

// Gives the result of all steps its size, which is that of gates with other values.
inline bool resize_sequence(Tensor& out, const Tensor& gates, std::int64_t values) {
  return resize(out, {static_cast<int>(gates.size(0)), static_cast<int>(gates.size(1)), static_cast<int>(values)}) &&
         row_major(out) && out.scalar_type() == gates.scalar_type();
}

// Gives a final state its size, which is that of the initial one.
inline bool resize_state(Tensor& out, const Tensor& initial) {
  return resize(out, {static_cast<int>(initial.size(0)), static_cast<int>(initial.size(1))}) && row_major(out) &&
         out.scalar_type() == initial.scalar_type();
}

}  // namespace modelbuild::kernels
