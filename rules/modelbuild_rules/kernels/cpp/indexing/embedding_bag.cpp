// aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,
//                      bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False,
//                      int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor), and
// aten::_embedding_bag_forward_only: the sums, means or maxima of the rows of `weight` in each bag, the bag of each
// index, the sizes of bags, and the indices of maxima.
#include <algorithm>
#include <optional>

#include "kernel.hpp"

namespace modelbuild::kernels {
namespace {

enum class Mode : std::uint8_t { kSum, kMean, kMaximum };

struct Embeddings {
  const Tensor& weight;
  const std::vector<std::int64_t>& indices;
  const std::vector<std::int64_t>& ends;  // of bags, one behind another
  std::int64_t padding;                   // the index of a row that counts for nothing
  Mode mode;
  const std::optional<Tensor>& scales;
};

// What eager mode returns besides the embeddings.
struct Facts {
  explicit Facts(const Embeddings& bags) : bag_of(bags.indices.size()), sizes(bags.ends.size()) {
    if (bags.mode == Mode::kMaximum) maxima.resize(sizes.size() * static_cast<std::size_t>(bags.weight.size(1)));
  }

  std::vector<std::int64_t> bag_of;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> maxima;
};

template <typename T>
void embed(const Embeddings& bags, Tensor& out, Facts& facts) {
  const std::int64_t width = bags.weight.size(1);
  std::vector<Sum<T>> made(static_cast<std::size_t>(width));
  T* to = out.mutable_data_ptr<T>();
  std::int64_t place = 0;
  for (std::size_t bag = 0; bag < bags.ends.size(); ++bag) {
    std::fill(made.begin(), made.end(), Sum<T>(0));
    std::int64_t& size = facts.sizes[bag];
    for (; place < bags.ends[bag]; ++place) {
      const std::int64_t index = bags.indices[place];
      facts.bag_of[place] = static_cast<std::int64_t>(bag);
      if (index == bags.padding) continue;
      const T* row = bags.weight.const_data_ptr<T>() + index * width;
      if (bags.mode == Mode::kMaximum) {
        std::int64_t* maxima = facts.maxima.data() + static_cast<std::int64_t>(bag) * width;
        for (std::int64_t i = 0; i < width; ++i) {
          if (size > 0 && !(row[i] > made[i])) continue;
          made[i] = row[i];
          maxima[i] = index;
        }
      } else if (bags.scales) {
        const Sum<T> scale = bags.scales->const_data_ptr<T>()[place];
        for (std::int64_t i = 0; i < width; ++i) made[i] += static_cast<Sum<T>>(row[i]) * scale;
      } else {
        for (std::int64_t i = 0; i < width; ++i) made[i] += static_cast<Sum<T>>(row[i]);
      }
      ++size;
    }
    const Sum<T> divisor = bags.mode == Mode::kMean && size > 0 ? static_cast<Sum<T>>(size) : Sum<T>(1);
    to = std::transform(made.begin(), made.end(), to, [&](Sum<T> each) { return static_cast<T>(each / divisor); });
  }
}

// Returns the ends of bags; nothing for offsets that begin after 0, decrease, or exceed the number of indices.
std::optional<std::vector<std::int64_t>> ends_of(std::vector<std::int64_t> offsets, bool last, std::int64_t count) {
  if (!last) offsets.push_back(count);
  if (offsets.empty()) return std::nullopt;
  const bool valid = (offsets.size() == 1 || offsets.front() == 0) && std::is_sorted(offsets.begin(), offsets.end()) &&
                     offsets.front() >= 0 && offsets.back() <= count;
  if (!valid) return std::nullopt;
  offsets.erase(offsets.begin());
  return offsets;
}

// Writes numbers to an output in eager mode's shape. Eager mode leaves some outputs empty, so that their size is that
// of the program.
bool write(const std::vector<std::int64_t>& numbers, const std::vector<executorch::aten::SizesType>& sizes,
           Tensor& out) {
  if (out.shape_dynamism() != executorch::runtime::TensorShapeDynamism::STATIC && !resize(out, sizes)) return false;
  return with_any(out.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto count = std::min<std::size_t>(numbers.size(), static_cast<std::size_t>(out.numel()));
    std::fill_n(out.mutable_data_ptr<T>(), out.numel(), T(0));
    std::transform(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count), out.mutable_data_ptr<T>(),
                   [](std::int64_t number) { return static_cast<T>(number); });
  });
}

void embedding_bag(KernelRuntimeContext& context, Arguments arguments) {
  const Tensor& weight = arguments[0]->toTensor();
  const auto indices = whole_numbers(arguments[1]->toTensor());
  const auto offsets = whole_numbers(arguments[2]->toTensor());
  const std::int64_t mode = arguments[4]->toInt();
  const auto scales = arguments[6]->toOptional<Tensor>();
  const bool last = arguments[7]->toBool();
  const std::int64_t padding = arguments[8]->toInt();
  Tensor& out = arguments[9]->toTensor();
  MB_CHECK(context, weight.dim() == 2, "weight: expected rows of numbers");
  MB_CHECK(context, indices && offsets && arguments[1]->toTensor().dim() == 1 && arguments[2]->toTensor().dim() == 1,
           "indices and offsets: expected vectors of whole numbers");
  MB_CHECK(context, mode >= 0 && mode <= 2, "mode: expected 0, 1 or 2");
  MB_CHECK(context,
           !scales || (mode == 0 && scales->scalar_type() == weight.scalar_type() &&
                       static_cast<std::size_t>(scales->numel()) == indices->size()),
           "per_sample_weights: expected one for each index, of the type of the weight, for sums");
  MB_CHECK(context, row_major(weight) && row_major(out), "expected row-major order");
  for (const std::int64_t index : *indices) {
    MB_CHECK(context, index >= 0 && index < weight.size(0), "indices: expected numbers below %d",
             static_cast<int>(weight.size(0)));
  }
  const auto ends = ends_of(*offsets, last, static_cast<std::int64_t>(indices->size()));
  MB_CHECK(context, ends.has_value(), "offsets: expected ascending places of indices, the first one 0");
  const auto count = static_cast<executorch::aten::SizesType>(ends->size());
  const auto width = static_cast<executorch::aten::SizesType>(weight.size(1));
  MB_CHECK(context, out.scalar_type() == weight.scalar_type(), "out: expected the type of the weight");
  MB_CHECK(context, resize(out, {count, width}), "out: no room for the result");
  const Embeddings bags{weight, *indices, *ends, padding, static_cast<Mode>(mode), scales};
  Facts facts(bags);
  const bool known = with_any_float(weight.scalar_type(), [&](auto type) { embed<decltype(type)>(bags, out, facts); });
  MB_CHECK(context, known, "weight: expected floating-point numbers");
  const bool maximum = bags.mode == Mode::kMaximum;
  const bool written =
      write(facts.bag_of, {static_cast<executorch::aten::SizesType>(indices->size())}, arguments[10]->toTensor()) &&
      write(facts.sizes, {count}, arguments[11]->toTensor()) &&
      write(maximum ? facts.maxima : facts.sizes,
            maximum ? std::vector<executorch::aten::SizesType>{count, width}
                    : std::vector<executorch::aten::SizesType>{count},
            arguments[12]->toTensor());
  MB_CHECK(context, written, "out: no room for the bags' sizes");
}

const Registration kRegistered("aten::_embedding_bag.out", embedding_bag);
const Registration kForwardOnly("aten::_embedding_bag_forward_only.out", embedding_bag);

}  // namespace
}  // namespace modelbuild::kernels
