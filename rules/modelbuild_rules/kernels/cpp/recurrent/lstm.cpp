// modelbuild::lstm(Tensor gates, Tensor weight, Tensor? bias, Tensor? projection, Tensor hidden, Tensor cell,
// bool batch_first, bool reverse) -> (Tensor, Tensor, Tensor): one direction of one layer of an LSTM, from the products
// of its inputs: the hidden state at all steps, and the last hidden and cell state.
#include "recurrent.hpp"

namespace modelbuild::kernels {
namespace {

struct Lstm {
  const Tensor& gates;
  const Tensor& weight;
  const Tensor* bias;
  const Tensor* projection;
  const Tensor& hidden;
  const Tensor& cell;
  Steps steps;
};

template <typename T>
void compute(const Lstm& net, Tensor& out, Tensor& last_hidden, Tensor& last_cell) {
  using S = Sum<T>;
  const std::int64_t batch = net.steps.batch;
  const std::int64_t units = net.cell.size(1);
  const std::int64_t states = net.hidden.size(1);
  const Values<T> weight(&net.weight, 4 * units * states);
  const Values<T> bias(net.bias, 4 * units);
  const Values<T> projection(net.projection, units * states);
  std::vector<S> hidden(net.hidden.const_data_ptr<T>(), net.hidden.const_data_ptr<T>() + batch * states);
  std::vector<S> cell(net.cell.const_data_ptr<T>(), net.cell.const_data_ptr<T>() + batch * units);
  std::vector<S> sums(static_cast<std::size_t>(4 * batch * units));
  std::vector<S> wide(static_cast<std::size_t>(net.projection == nullptr ? 0 : batch * units));
  for (std::int64_t step = 0; step < net.steps.steps; ++step) {
    products(weight.data(), 4 * units, states, hidden.data(), batch, sums.data());
    std::vector<S>& made = net.projection == nullptr ? hidden : wide;
    for (std::int64_t i = 0; i < batch; ++i) {
      const T* from = net.gates.const_data_ptr<T>() + net.steps.row(step, i) * 4 * units;
      const auto gate = [&](std::int64_t part, std::int64_t unit) {
        const std::int64_t at = part * units + unit;
        return static_cast<S>(from[at]) + bias.data()[at] + sums[static_cast<std::size_t>(i * 4 * units + at)];
      };
      for (std::int64_t unit = 0; unit < units; ++unit) {
        const auto at = static_cast<std::size_t>(i * units + unit);
        cell[at] = sigmoid(gate(1, unit)) * cell[at] + sigmoid(gate(0, unit)) * std::tanh(gate(2, unit));
        made[at] = sigmoid(gate(3, unit)) * std::tanh(cell[at]);
      }
    }
    if (net.projection != nullptr) products(projection.data(), states, units, wide.data(), batch, hidden.data());
    for (std::int64_t i = 0; i < batch; ++i) {
      std::copy_n(hidden.data() + i * states, states, out.mutable_data_ptr<T>() + net.steps.row(step, i) * states);
    }
  }
  std::copy(hidden.begin(), hidden.end(), last_hidden.mutable_data_ptr<T>());
  std::copy(cell.begin(), cell.end(), last_cell.mutable_data_ptr<T>());
}

void lstm(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& gates = arguments[0]->toTensor();
  const Tensor& weight = arguments[1]->toTensor();
  const Tensor* bias = optional_tensor(*arguments[2]);
  const Tensor* projection = optional_tensor(*arguments[3]);
  const Tensor& hidden = arguments[4]->toTensor();
  const Tensor& cell = arguments[5]->toTensor();
  const bool batch_first = arguments[6]->toBool();
  Tensor& out = arguments[8]->toTensor();
  Tensor& last_hidden = arguments[9]->toTensor();
  Tensor& last_cell = arguments[10]->toTensor();
  const char* problem = misfit(gates, weight, bias, hidden, 4, batch_first);
  MB_CHECK(context, problem == nullptr, "%s", problem);
  MB_CHECK(context, cell.dim() == 2 && cell.size(0) == hidden.size(0) && 4 * cell.size(1) == weight.size(0),
           "cell: expected a state for each sequence");
  MB_CHECK(context, cell.scalar_type() == gates.scalar_type() && row_major(cell),
           "cell: expected the type of gates, in row-major order");
  if (projection == nullptr) {
    MB_CHECK(context, cell.size(1) == hidden.size(1), "hidden: expected the size of cell");
  } else {
    MB_CHECK(context,
             projection->dim() == 2 && projection->size(0) == hidden.size(1) && projection->size(1) == cell.size(1) &&
                 projection->scalar_type() == gates.scalar_type() && row_major(*projection),
             "projection: expected a row for each value of hidden, in the type of gates");
  }
  MB_CHECK(
      context,
      resize_sequence(out, gates, hidden.size(1)) && resize_state(last_hidden, hidden) && resize_state(last_cell, cell),
      "no room for the results");
  const Lstm net{gates, weight, bias, projection, hidden, cell, Steps(gates, batch_first, arguments[7]->toBool())};
  const bool known = with_any_float(gates.scalar_type(),
                                    [&](auto type) { compute<decltype(type)>(net, out, last_hidden, last_cell); });
  MB_CHECK(context, known, "gates: expected a floating-point type");
}

const Registration kRegistered("modelbuild::lstm.out", lstm);

}  // namespace
}  // namespace modelbuild::kernels
