// modelbuild::rnn(Tensor gates, Tensor weight, Tensor? bias, Tensor hidden, bool relu, bool batch_first, bool reverse)
// -> (Tensor, Tensor): one direction of one layer of an Elman network, from the products of its inputs: the hidden
// state at all steps, and the last one.
#include "recurrent.hpp"

namespace modelbuild::kernels {
namespace {

struct Rnn {
  const Tensor& gates;
  const Tensor& weight;
  const Tensor* bias;
  const Tensor& hidden;
  bool relu;
  Steps steps;
};

template <typename T>
void compute(const Rnn& net, Tensor& out, Tensor& last) {
  using S = Sum<T>;
  const std::int64_t batch = net.steps.batch;
  const std::int64_t units = net.hidden.size(1);
  const Values<T> weight(&net.weight, units * units);
  const Values<T> bias(net.bias, units);
  std::vector<S> hidden(net.hidden.const_data_ptr<T>(), net.hidden.const_data_ptr<T>() + batch * units);
  std::vector<S> sums(hidden.size());
  for (std::int64_t step = 0; step < net.steps.steps; ++step) {
    products(weight.data(), units, units, hidden.data(), batch, sums.data());
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::int64_t row = net.steps.row(step, i);
      const T* from = net.gates.const_data_ptr<T>() + row * units;
      S* made = hidden.data() + i * units;
      for (std::int64_t unit = 0; unit < units; ++unit) {
        const S sum = static_cast<S>(from[unit]) + bias.data()[unit] + sums[static_cast<std::size_t>(i * units + unit)];
        // A sum that is NaN remains NaN.
        made[unit] = net.relu ? (sum < 0 ? 0 : sum) : std::tanh(sum);
      }
      std::copy_n(made, units, out.mutable_data_ptr<T>() + row * units);
    }
  }
  std::copy(hidden.begin(), hidden.end(), last.mutable_data_ptr<T>());
}

void rnn(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& gates = arguments[0]->toTensor();
  const Tensor& weight = arguments[1]->toTensor();
  const Tensor* bias = optional_tensor(*arguments[2]);
  const Tensor& hidden = arguments[3]->toTensor();
  const bool relu = arguments[4]->toBool();
  const bool batch_first = arguments[5]->toBool();
  Tensor& out = arguments[7]->toTensor();
  Tensor& last = arguments[8]->toTensor();
  const char* problem = misfit(gates, weight, bias, hidden, 1, batch_first);
  MB_CHECK(context, problem == nullptr, "%s", problem);
  MB_CHECK(context, hidden.size(1) == weight.size(0), "weight: expected a row for each value of hidden");
  MB_CHECK(context, resize_sequence(out, gates, hidden.size(1)) && resize_state(last, hidden),
           "no room for the results");
  const Rnn net{gates, weight, bias, hidden, relu, Steps(gates, batch_first, arguments[6]->toBool())};
  const bool known = with_any_float(gates.scalar_type(), [&](auto type) { compute<decltype(type)>(net, out, last); });
  MB_CHECK(context, known, "gates: expected a floating-point type");
}

const Registration kRegistered("modelbuild::rnn.out", rnn);

}  // namespace
}  // namespace modelbuild::kernels
