# A newcomer's two commands: `make demo` and `make test`. The rest is for developers.
SHELL := bash
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
DEMO := results/bocchi2026escape/fig1

# Two workers on two cores: threads of their own would only stand in each other's way.
export OPENBLAS_NUM_THREADS ?= 1
# What XLA compiled for one run serves the next.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.1

# The wheel and the source archive, each tried in an empty environment.
# (On Windows the shell is that of Git.)
ARCHIVES := rm -rf dist && $(BIN)/python -m build --quiet && $(BIN)/python tests/packaging/try_archive.py

.PHONY: demo test test-long test-defaults test-all test-torch test-browser dist dist-newest dist-oldest check format bench bench-torch results lock docs clean

demo: $(VENV)/.installed
	$(BIN)/learndyn run bocchi2026escape/fig1 --preset quick --out $(DEMO)
	@echo "The figure is in $(DEMO)/figure.png"

# XLA's older emitters compile in half the time; `test-defaults` and `test-all` run with those of users.
# (jaxlib 0.12 ends a process that sets this flag; requirements.lock has an earlier one.)
test test-long: export XLA_FLAGS ?= --xla_cpu_use_fusion_emitters=false
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not long and not gpu"

# What users' compilers make of networks, rules, probes and theories.
DEFAULTS := tests/conformance tests/networks tests/probes tests/theory/quadratic_model
test-defaults: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu" $(DEFAULTS)

# The rest of what tests/long.txt leaves out of `make test`.
test-long: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "long and not slow and not gpu" $(addprefix --ignore=,$(DEFAULTS))

test-all: $(VENV)/.installed-notebook
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu"
	$(MAKE) dist

# PyTorch, flax and haiku are extras: their tests are left out of `make test` where they are not
# installed.
test-torch: $(VENV)/.installed-torch
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu" \
		tests/pytorch tests/flax tests/test_pages.py tests/test_readme.py

dist: dist-newest dist-oldest

dist-newest: $(VENV)/.installed-dev
	$(ARCHIVES) dist/*.whl --versions newest

dist-oldest: $(VENV)/.installed-dev
	$(ARCHIVES) dist/*.tar.gz --versions oldest

# The explorer in Debian's browser, which is installed if there is none (that takes root).
test-browser: export XLA_FLAGS ?= --xla_cpu_use_fusion_emitters=false
test-browser: $(VENV)/.installed-browser
	@command -v chromium > /dev/null || (apt-get update && apt-get install -y --no-install-recommends chromium)
	LEARNDYN_BROWSER=$$(command -v chromium) $(BIN)/python -m pytest tests/browser

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/first_call.py
	$(BIN)/python benchmarks/foundation.py
	$(BIN)/python benchmarks/averages.py
	$(BIN)/python benchmarks/reduced.py
	$(BIN)/python benchmarks/choosing.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/twins.py
	$(BIN)/python benchmarks/linearised.py
	$(BIN)/python benchmarks/perturbation.py
	$(BIN)/python benchmarks/perturbation_theory.py
	$(BIN)/python benchmarks/quadratic_model.py
	$(BIN)/python benchmarks/instruments.py
	$(BIN)/python benchmarks/catapults.py
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/explorer.py

bench-torch: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/instruments_pytorch.py
	$(BIN)/python benchmarks/instruments_at_scale.py

# docs/results/README.md from the results that are kept there.
results: $(VENV)/.installed
	$(BIN)/learndyn results docs/results

# The site, in docs/_build/html: every warning is an error, and no page loads anything from outside.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -q -n -W --keep-going -E -b html docs docs/_build/html
	$(BIN)/python docs/_site/links.py docs/_build/html

# Newest versions that pass: install without the lock, test, then write the lock anew.
lock: $(VENV)/.installed-bench
	$(BIN)/python -m pip --disable-pip-version-check freeze --exclude-editable --exclude learndyn | sed 's/+cpu$$//' > requirements.lock

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements.lock | $(VENV)/pyvenv.cfg
	$(PIP) install -c requirements.lock -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements.lock | $(VENV)/pyvenv.cfg
	$(PIP) install -c requirements.lock -e ".[dev]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-notebook: pyproject.toml requirements.lock | $(VENV)/pyvenv.cfg
	$(PIP) install -c requirements.lock -e ".[dev-notebook]"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-torch: pyproject.toml requirements.lock | $(VENV)/pyvenv.cfg
	$(PIP) install -c requirements.lock -e ".[dev-torch]"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-bench: pyproject.toml requirements.lock | $(VENV)/pyvenv.cfg
	$(PIP) install -c requirements.lock -e ".[bench]"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-notebook $(VENV)/.installed-torch

$(VENV)/.installed-browser: pyproject.toml requirements.lock | $(VENV)/pyvenv.cfg
	$(PIP) install -c requirements.lock -e ".[dev-browser]"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-docs: pyproject.toml requirements.lock | $(VENV)/pyvenv.cfg
	$(PIP) install -c requirements.lock -e ".[docs]"
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) results .pytest_cache .ruff_cache .jax_cache docs/_build docs/generated
