// aten::native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor,
// Tensor, Tensor): rows with mean 0 and variance 1, and their means and the reciprocals of their deviations before.
// Unlike ExecuTorch's kernel, it computes the variance from differences to the mean, as eager mode does.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/faster.hpp"

namespace modelbuild::kernels {
namespace {

// Returns the sum of a function's values. Eight partial sums let compilers use vectors.
template <typename Function>
float sum_of(std::int64_t count, Function&& value) {
  std::array<float, 8> sums{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t j = 0; j < 8; ++j) sums[static_cast<std::size_t>(j)] += value(i + j);
  }
  float rest = 0;
  for (; i < count; ++i) rest += value(i);
  for (const float each : sums) rest += each;
  return rest;
}

struct Normalizing {
  const float* input;
  const float* weight;  // nullptr for ones
  const float* bias;    // nullptr for zeros
  float* out;
  float* means;
  float* reciprocals;
  std::int64_t width;
  float eps;

  void compute(std::int64_t from, std::int64_t until) const {
    const auto count = static_cast<float>(width);
    for (std::int64_t row = from; row < until; ++row) {
      const float* x = input + row * width;
      float* y = out + row * width;
      const float mean = sum_of(width, [&](std::int64_t i) { return x[i]; }) / count;
      // The digits that the mean lacks matter if it is much greater than the deviation.
      const float rest = sum_of(width, [&](std::int64_t i) { return x[i] - mean; }) / count;
      const auto centered = [&](std::int64_t i) { return x[i] - mean - rest; };
      const float squares = sum_of(width, [&](std::int64_t i) { return centered(i) * centered(i); });
      const float reciprocal = 1 / std::sqrt(squares / count + eps);
      for (std::int64_t i = 0; i < width; ++i) y[i] = centered(i) * reciprocal;
      if (weight != nullptr) {
        for (std::int64_t i = 0; i < width; ++i) y[i] *= weight[i];
      }
      if (bias != nullptr) {
        for (std::int64_t i = 0; i < width; ++i) y[i] += bias[i];
      }
      means[row] = mean;
      reciprocals[row] = reciprocal;
    }
  }
};

const float* values_of(const EValue& argument) {
  return argument.isNone() ? nullptr : argument.toTensor().const_data_ptr<float>();
}

void native_layer_norm(KernelRuntimeContext& context, Arguments arguments) {
  constexpr std::int64_t kGrain = 8192;  // elements that are worth another thread
  const Tensor& input = arguments[0]->toTensor();
  const auto shape = arguments[1]->toIntList();
  Tensor& out = arguments[5]->toTensor();
  Tensor& means = arguments[6]->toTensor();
  Tensor& reciprocals = arguments[7]->toTensor();
  Sizes sizes{input.sizes().begin(), input.sizes().end()};
  MB_CHECK(context, shape.size() <= sizes.size(), "normalized_shape: expected the last sizes");
  const std::size_t outer = sizes.size() - shape.size();
  MB_CHECK(context, resize(out, sizes), "out: no room for the result");
  std::int64_t rows = 1;
  std::int64_t width = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    MB_CHECK(context, i < outer || shape[i - outer] == sizes[i], "normalized_shape: expected the last sizes");
    (i < outer ? rows : width) *= sizes[i];
    if (i >= outer) sizes[i] = 1;
  }
  MB_CHECK(context, resize(means, sizes) && resize(reciprocals, sizes), "mean: no room for the result");
  for (const EValue* each : {arguments[2], arguments[3]}) {
    MB_CHECK(context, each->isNone() || each->toTensor().numel() == width,
             "weight, bias: expected the normalized shape");
  }
  const Normalizing normalizing{input.const_data_ptr<float>(),
                                values_of(*arguments[2]),
                                values_of(*arguments[3]),
                                out.mutable_data_ptr<float>(),
                                means.mutable_data_ptr<float>(),
                                reciprocals.mutable_data_ptr<float>(),
                                width,
                                static_cast<float>(number(*arguments[4]))};
  const auto compute = [&](std::int64_t from, std::int64_t until) { normalizing.compute(from, until); };
  const std::int64_t grain = std::max<std::int64_t>(kGrain / std::max<std::int64_t>(width, 1), 1);
  MB_CHECK(context, parallel_for(0, rows, grain, compute), "the threads failed");
}

// Returns the part of a key for a tensor.
std::string key_of(int dimensions) {
  std::string key = "6;";
  for (int i = 0; i < dimensions; ++i) key += (i > 0 ? "," : "") + std::to_string(i);
  return key;
}

// Returns the keys of inputs of up to five dimensions, without weights, with a weight, and with a weight and a bias.
std::vector<std::string> keys() {
  std::vector<std::string> found;
  for (int input = 1; input <= 5; ++input) {
    const std::string results = "|" + key_of(input) + "|" + key_of(input) + "|" + key_of(input);
    found.push_back("v1/" + key_of(input) + results);
    for (int weight = 1; weight <= std::min(input, 3); ++weight) {
      const std::string one = "|" + key_of(weight);
      for (const std::string& weights : {one, one + one}) found.push_back("v1/" + key_of(input) + weights + results);
    }
  }
  return found;
}

const std::vector<std::string> kKeys = keys();  // which ExecuTorch does not copy
const bool kRegistered = [] {
  for (const std::string& key : kKeys) {
    const Faster registered("aten::native_layer_norm.out", key.c_str(), native_layer_norm);
    (void)registered;
  }
  return true;
}();

}  // namespace
}  // namespace modelbuild::kernels
