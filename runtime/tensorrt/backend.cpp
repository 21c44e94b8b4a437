// The TensorRT delegate. Its backend id and blob format are torch_tensorrt's, so each project's runtime runs the
// other's programs.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include "blob.hpp"
#include "engine.hpp"

namespace modelbuild::tensorrt {
namespace {

namespace er = executorch::runtime;

class Backend final : public er::BackendInterface {
 public:
  bool is_available() const override { return true; }

  er::Result<er::DelegateHandle*> init(er::BackendInitContext& context, er::FreeableBuffer* processed,
                                       er::ArrayRef<er::CompileSpec> /*specs*/) const override {
    std::unique_ptr<Engine> engine;
    try {
      const auto* bytes = static_cast<const std::uint8_t*>(processed->data());
      const Blob blob = parse_blob({bytes, processed->size()});
      const char* method = context.get_method_name();
      const Error error = Engine::load(blob, method == nullptr ? "?" : method, &engine);
      if (error != Error::Ok) return error;
    } catch (const BadBlob& problem) {
      ET_LOG(Error, "a TensorRT delegate's blob is damaged: %s", problem.what());
      return Error::DelegateInvalidCompatibility;
    }
    processed->Free();
    return engine.release();
  }

  Error execute(er::BackendExecutionContext& /*context*/, er::DelegateHandle* handle,
                Span<EValue*> arguments) const override {
    return static_cast<Engine*>(handle)->run(arguments);
  }

  void destroy(er::DelegateHandle* handle) const override { delete static_cast<Engine*>(handle); }
};

Backend backend;
const Error registered = er::register_backend({"TensorRTBackend", &backend});

}  // namespace
}  // namespace modelbuild::tensorrt
