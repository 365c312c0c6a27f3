# `make demo` and `make test` do everything on a fresh machine; both create and use .venv.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -name '*.py')
ONE_CORE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: install demo test bench clean

install: .venv/compiled

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	touch $@

# numba keys its cache on a function's own file; a change in one it calls goes unnoticed there.
.venv/compiled: .venv/installed $(SOURCES)
	find src -name '*.nbi' -delete -o -name '*.nbc' -delete
	$(BIN)/python -m dpsubset.experiments.warm
	touch $@

demo: install
	$(BIN)/python -m dpsubset.experiments.demo

test: install
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports
# Compiled functions are run as plain Python first, on a part of the tests: this compares the two
# ways, and shows their lines to the coverage.
	NUMBA_DISABLE_JIT=1 $(ONE_CORE) $(BIN)/pytest -q -n 2 -W ignore::RuntimeWarning --cov --cov-report= --cov-fail-under=0 \
		tests/losses tests/designs tests/cuts tests/sampling tests/interpreted
	$(ONE_CORE) $(BIN)/pytest -n 2 --cov --cov-append --cov-report=term

bench: install
	mkdir -p benchmarks
	$(ONE_CORE) $(BIN)/python -m dpsubset bench --output benchmarks/results.json

clean:
	rm -rf .venv demo .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
