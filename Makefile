# Two commands matter: `make demo` and `make test`. Both do all the set-up they need, in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv takes a few seconds where pip takes a minute; where it cannot install, as with an index that only pip knows, pip does.
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python

# Each module is compiled to bytecode once, not by each command.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: compiled demo demo-comparison demo-study demo-plan test test-all check format bench docs wheels clean

demo: compiled  ## Compare OLB, SJS and PJS on a site of 142 machines, and reproduce a study; see build/demo
	@$(MAKE) --no-print-directory --jobs --output-sync demo-comparison demo-study

demo-comparison:
	$(BIN)/sil run light-to-heavy --out build/demo

demo-study:
	$(BIN)/sil reproduce cs2 --out build/demo/reproduced

demo-plan: compiled  ## Which of five offers to buy for a site of 142 machines; see build/demo-plan
	$(BIN)/sil plan five-offers --out build/demo-plan

test: compiled $(VENV)/.installed-dev  ## Run the tests
	$(BIN)/python -m pytest -n auto --dist worksteal

test-all: compiled $(VENV)/.installed-dev  ## Those too that take long, and all examples of those that have many
	SIL_ALL_EXAMPLES=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'long or not long'

check: compiled $(VENV)/.installed-dev  ## Format, lint, types and architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py
	$(BIN)/python -m tests.sizes

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: compiled $(VENV)/.installed-dev  ## Run the benchmarks; results go to benchmarks/results/
	$(BIN)/python -m benchmarks.bench_mapping
	$(BIN)/python -m benchmarks.bench_optimality
	$(BIN)/python -m benchmarks.bench_harness
	$(BIN)/python -m benchmarks.bench_site_db
	$(BIN)/python -m benchmarks.bench_prediction
	$(BIN)/python -m benchmarks.bench_time_shared
	$(BIN)/python -m benchmarks.bench_replay
	$(BIN)/python -m benchmarks.bench_report
	$(BIN)/python -m benchmarks.bench_sweep
	$(BIN)/python -m benchmarks.bench_nodes
	$(BIN)/python -m benchmarks.bench_batsim
	$(BIN)/python -m benchmarks.bench_planning
	$(BIN)/python -m benchmarks.bench_gym

docs: compiled $(VENV)/.installed-dev  ## Build the site of documents, with executed notebooks, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

wheels: $(VENV)/.installed-dev  ## A source distribution, and a wheel for each Python from 3.11 to 3.14 there is; see dist
	$(BIN)/python -m build --sdist --no-isolation
	@for version in 3.11 3.12 3.13 3.14; do \
	  if python$$version -c '' 2>/dev/null; \
	  then python$$version -m pip wheel --quiet --no-deps --wheel-dir dist . || exit 1; \
	  else echo "python$$version is not installed: no wheel for it"; fi; \
	done
	@ls dist

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; say which with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $@ install --quiet --no-compile -r requirements-installer.txt 2>/dev/null || \
	  { $@ -m ensurepip && $(PIP) -r requirements-installer.txt; }

$(VENV)/.installed: requirements.txt pyproject.toml | $(VENV)/bin/python
	with="$(UV)"; $$with -r requirements.txt || { with="$(PIP)"; $$with -r requirements.txt; } && \
	  { command -v cc || command -v gcc || command -v clang || $$with -r requirements-compiler.txt; } >/dev/null && \
	  $$with --no-deps --no-build-isolation -e .
	@touch $@

compiled: $(VENV)/.installed
	@$(BIN)/python hatch_build.py

$(VENV)/.installed-dev: requirements-docs.txt requirements-dev.txt requirements-batsim.txt $(VENV)/.installed
	$(UV) -r requirements-docs.txt || $(PIP) -r requirements-docs.txt
	$(UV) --no-deps -r requirements-batsim.txt || $(PIP) --no-deps -r requirements-batsim.txt
	@touch $@
