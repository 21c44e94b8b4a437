// modelbuild::gru(Tensor gates, Tensor weight, Tensor? bias, Tensor hidden, bool batch_first, bool reverse)
// -> (Tensor, Tensor): one direction of one layer of a GRU, from the products of its inputs: the hidden state at all
// steps, and the last one.
#include "recurrent.hpp"

namespace modelbuild::kernels {
namespace {

struct Gru {
  const Tensor& gates;
  const Tensor& weight;
  const Tensor* bias;
  const Tensor& hidden;
  Steps steps;
};

template <typename T>
void compute(const Gru& net, Tensor& out, Tensor& last) {
  using S = Sum<T>;
  const std::int64_t batch = net.steps.batch;
  const std::int64_t units = net.hidden.size(1);
  const Values<T> weight(&net.weight, 3 * units * units);
  const Values<T> bias(net.bias, 3 * units);
  std::vector<S> hidden(net.hidden.const_data_ptr<T>(), net.hidden.const_data_ptr<T>() + batch * units);
  std::vector<S> sums(static_cast<std::size_t>(3 * batch * units));
  for (std::int64_t step = 0; step < net.steps.steps; ++step) {
    products(weight.data(), 3 * units, units, hidden.data(), batch, sums.data());
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::int64_t row = net.steps.row(step, i);
      const T* from = net.gates.const_data_ptr<T>() + row * 3 * units;
      const auto state = [&](std::int64_t at) {
        return sums[static_cast<std::size_t>(i * 3 * units + at)] + bias.data()[at];
      };
      S* made = hidden.data() + i * units;
      for (std::int64_t unit = 0; unit < units; ++unit) {
        const S reset = sigmoid(static_cast<S>(from[unit]) + state(unit));
        const S update = sigmoid(static_cast<S>(from[units + unit]) + state(units + unit));
        const S fresh = std::tanh(static_cast<S>(from[2 * units + unit]) + reset * state(2 * units + unit));
        made[unit] = (made[unit] - fresh) * update + fresh;
      }
      std::copy_n(made, units, out.mutable_data_ptr<T>() + row * units);
    }
  }
  std::copy(hidden.begin(), hidden.end(), last.mutable_data_ptr<T>());
}

void gru(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& gates = arguments[0]->toTensor();
  const Tensor& weight = arguments[1]->toTensor();
  const Tensor* bias = optional_tensor(*arguments[2]);
  const Tensor& hidden = arguments[3]->toTensor();
  const bool batch_first = arguments[4]->toBool();
  Tensor& out = arguments[6]->toTensor();
  Tensor& last = arguments[7]->toTensor();
  const char* problem = misfit(gates, weight, bias, hidden, 3, batch_first);
  MB_CHECK(context, problem == nullptr, "%s", problem);
  MB_CHECK(context, 3 * hidden.size(1) == weight.size(0), "weight: expected three rows for each value of hidden");
  MB_CHECK(context, resize_sequence(out, gates, hidden.size(1)) && resize_state(last, hidden),
           "no room for the results");
  const Gru net{gates, weight, bias, hidden, Steps(gates, batch_first, arguments[5]->toBool())};
  const bool known = with_any_float(gates.scalar_type(), [&](auto type) { compute<decltype(type)>(net, out, last); });
  MB_CHECK(context, known, "gates: expected a floating-point type");
}

const Registration kRegistered("modelbuild::gru.out", gru);

}  // namespace
}  // namespace modelbuild::kernels
