# make demo: build the example detector and run it on a photo. make runtime: build the C++ runtime, for this machine or,
# with ARCH=aarch64, for another. make wheels: build the distributions into dist/, with the runtime for both. make test:
# run every check. Each first makes .venv from requirements.lock if it is missing or the lock changed.

PYTHON ?= python3
JOBS ?= 2
ARCHITECTURES ?= x86_64 aarch64
PYTEST_ARGS ?= -m "not exhaustive"

VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/locked-$(firstword $(shell sha256sum requirements.lock))
CASD := $(VENV)/casd-$(firstword $(shell sha256sum tests/remote/servers.lock))
PROGRAMS := $(wildcard tests/remote/*/package*.json)
SERVERS := $(VENV)/servers-$(firstword $(shell cat tests/remote/buildgrid.lock $(PROGRAMS) | sha256sum))
PIP := $(BIN)/python -m pip --disable-pip-version-check

RUNTIME := runtime/python/modelbuild_runtime_native/runtime.json
RUNTIME_SOURCES := $(shell find runtime rules/modelbuild_rules/kernels/cpp -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.c' -o -name '*.zig' -o -name '*.json' | grep -v '^runtime/python/')

TOOLCHAINS := rules/modelbuild_rules/toolchains

NATIVE = $(shell find runtime rules tests/runtime -name '*.cpp' -o -name '*.hpp' -o -name '*.c' -o -name '*.h')

.PHONY: demo runtime wheels release tidy test test-all fuzz bench bench-models site lint format venv lock clean
.DELETE_ON_ERROR:

demo: venv
	$(BIN)/modelbuild -C examples build //models:detector
	$(BIN)/modelbuild -C examples run //models:detector --input image=//third_party:astronaut --output-dir $(CURDIR)/build/demo
	$(BIN)/python examples/demo.py $(CURDIR)/build/demo

runtime: venv
	$(BIN)/python runtime/build.py --tests $(if $(ARCH),--arch $(ARCH))
	$(BIN)/python runtime/archive.py $(if $(ARCH),--arch $(ARCH))

wheels: venv
	for arch in $(ARCHITECTURES); do $(BIN)/python runtime/build.py --arch $$arch || exit 1; done
	$(BIN)/python runtime/wheels.py $(addprefix --arch ,$(ARCHITECTURES))
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

release: venv
	rm -rf dist
	$(BIN)/python tools/release.py $(RELEASE_ARGS)

# With the machine's C++ library.
tidy: venv
	$(BIN)/python runtime/build.py --commands-only --out build/tidy
	find runtime rules -name '*.cpp' ! -name by_headers.cpp | xargs -n 4 -P $(JOBS) $(BIN)/clang-tidy --config-file=runtime/.clang-tidy -p build/tidy --quiet

# The checks run beside each other. One process more than jobs, since some tests wait for timers and servers.
test: venv
	$(MAKE) --jobs=$(JOBS) --output-sync=target lint tidy $(CASD)
	$(BIN)/python -m pytest -n $$(($(JOBS) + 1)) --dist loadgroup --no-loadscope-reorder $(PYTEST_ARGS)

test-all: $(SERVERS)
	$(MAKE) test PYTEST_ARGS=

# Run a million damaged files; `make test` runs 5,000.
fuzz: venv
	FUZZ_RUNS=$(or $(RUNS),1000000) $(BIN)/python -m pytest tests/runtime/native/test_native_fuzz.py

lint: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)
	$(BIN)/python-zig fmt --check runtime/src

# The documents as web pages in build/site; fails for a broken link or anchor.
site: venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench:
	$(PYTHON) benchmarks/bench.py $(BENCH_ARGS)

bench-models: venv
	$(BIN)/python benchmarks/model_changes.py
	$(BIN)/python benchmarks/cuda_changes.py first weights layer
	$(BIN)/python benchmarks/torch_actions.py

format: venv
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE)

venv: $(BIN)/modelbuild $(RUNTIME)

# The C++ runtime of the editable installation, which runs each program that is built.
$(RUNTIME): $(RUNTIME_SOURCES) runtime/sdk.lock runtime/CMakeLists.txt | $(BIN)/modelbuild
	$(BIN)/python runtime/install.py

$(BIN)/modelbuild: $(LOCKED) pyproject.toml runtime/pyproject.toml protos/generate.py $(shell find protos -name '*.proto')
	$(PIP) install --quiet --no-deps --no-build-isolation --editable . --editable runtime
	@touch $@

# setuptools is installed first, from the lock, so that source builds use only locked packages.
$(LOCKED):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "error: $(PYTHON) is not Python 3.11, 3.12 or 3.13, which the lock supports; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "error: $(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock > $(VENV)/setuptools.lock
	$(PIP) install --quiet --no-deps --require-hashes --requirement $(VENV)/setuptools.lock
	$(PIP) install --no-compile --no-deps --require-hashes --no-build-isolation --use-pep517 --requirement requirements.lock
	$(PIP) check
	@touch $@

# Programs that tests of remote caches start; nothing is imported from them. The quick tests start only buildbox-casd.
$(CASD): $(LOCKED) tests/remote/servers.lock
	rm -rf $(VENV)/casd-* $(VENV)/servers
	$(PIP) install --quiet --no-deps --require-hashes --target $(VENV)/servers --requirement tests/remote/servers.lock
	@touch $@

$(SERVERS): $(LOCKED) tests/remote/buildgrid.lock $(PROGRAMS)
	rm -rf $(VENV)/servers-* $(VENV)/buildgrid $(VENV)/bazel $(VENV)/azurite
	$(PIP) install --quiet --no-deps --require-hashes --target $(VENV)/buildgrid --requirement tests/remote/buildgrid.lock
	cp -r tests/remote/bazel tests/remote/azurite $(VENV)
	@if command -v npm > /dev/null; then \
		for name in bazel azurite; do npm ci --prefix $(VENV)/$$name --silent --ignore-scripts --no-audit || exit 1; done; \
	else echo 'no npm: the tests with Bazel and Azurite will not be run'; fi
	@touch $@

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock"

# Torch's packages for CUDA: requirements-cpu.lock leaves them out, and torch, whose build for the CPU needs none of them.
CUDA := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
	nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse \
	nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx

lock:
	$(LOCK) --no-emit-package modelbuild-runtime --extra models --extra tensorrt-rtx --extra cuda --extra runtime-build --extra test --extra remote --extra watch --extra lsp --extra trust --extra publish --extra huggingface --extra docs --extra dev $(LOCK_ARGS) \
		--output-file requirements.lock pyproject.toml
	$(LOCK) --no-emit-package modelbuild-runtime $(addprefix --no-emit-package ,$(CUDA)) --constraint requirements.lock \
		--extra models --extra test --extra remote --output-file requirements-cpu.lock pyproject.toml
	for name in cuda runtime tensorrt_rtx xnnpack; do $(LOCK) --no-deps --constraint requirements.lock --no-annotate \
		--output-file $(TOOLCHAINS)/$$name.lock $(TOOLCHAINS)/$$name.in || exit 1; done
	$(LOCK) --no-deps --no-annotate --override tests/toolchain/torch_2_15.in --output-file tests/toolchain/torch_2_15.lock $(TOOLCHAINS)/cuda.in
	$(LOCK) --output-file tests/remote/buildgrid.lock tests/remote/buildgrid.in
	$(LOCK) --output-file benchmarks/tools/requirements.lock benchmarks/tools/requirements.in
	for name in cpu olive; do $(LOCK) --no-deps --output-file benchmarks/tools/$$name.lock benchmarks/tools/$$name.in || exit 1; done

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
