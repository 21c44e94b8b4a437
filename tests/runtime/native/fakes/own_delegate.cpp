// A delegate of somebody's own, which the runtime knows from its DoublerBackend.delegate.json only: twice its input.
#include <executorch/runtime/backend/interface.h>

namespace {

namespace er = executorch::runtime;

class Doubler final : public er::BackendInterface {
 public:
  bool is_available() const override { return true; }

  er::Result<er::DelegateHandle*> init(er::BackendInitContext& /*context*/, er::FreeableBuffer* processed,
                                       er::ArrayRef<er::CompileSpec> /*specs*/) const override {
    processed->Free();
    return nullptr;
  }

  er::Error execute(er::BackendExecutionContext& /*context*/, er::DelegateHandle* /*handle*/,
                    er::Span<er::EValue*> arguments) const override {
    const auto& input = arguments[0]->toTensor();
    float* output = arguments[1]->toTensor().mutable_data_ptr<float>();
    for (ssize_t i = 0; i < input.numel(); ++i) output[i] = 2 * input.const_data_ptr<float>()[i];
    return er::Error::Ok;
  }
};

Doubler doubler;
const er::Error registered = er::register_backend({"DoublerBackend", &doubler});

}  // namespace
