# `make demo` and `make test` do everything on a fresh machine. All targets share .venv, and each
# installs only what it needs: the demo what a user gets, tests and the bench their extras on top.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SOURCES := $(shell find src -name '*.py')
CHECKED := src tests benchmarks docs/tests
ONE_CORE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
LOCK := -c constraints.txt
# Python is started again and again: its modules stay compiled, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
# `make test test-slow COVERAGE=1` measures what the first tier and plain Python run, and fails below
# the floor. The second tier's own tests run without: measuring costs them minutes, and the other
# two reach the floor by themselves.
COV := $(if $(COVERAGE),--cov --cov-append --cov-report= --cov-fail-under=0)

.PHONY: install demo checked test test-slow bench docs browser docs-test dist clean

install: .venv/dev .venv/compiled

# Python writes its own .pyc of a module at the first import; most modules are never imported.
.venv/demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --no-compile -e .
	touch $@

.venv/dev: .venv/demo constraints.txt
	$(INSTALL) $(LOCK) -e '.[dev]'
	touch $@

.venv/bench: .venv/demo constraints.txt
	$(INSTALL) $(LOCK) -e '.[bench]'
	touch $@

.venv/docs: .venv/demo constraints.txt
	$(INSTALL) $(LOCK) -e '.[docs]'
	touch $@

.venv/dist: .venv/demo constraints.txt
	$(INSTALL) $(LOCK) -e '.[dist]'
	touch $@

# numba keys its cache on a function's own file; a change in one it calls goes unnoticed there.
.venv/cleared: .venv/demo $(SOURCES)
	find src -name '*.nbi' -delete -o -name '*.nbc' -delete
	touch $@

.venv/compiled: .venv/cleared
	$(BIN)/python -m dpsubset.warm
	touch $@

# The demo compiles what it runs, no more.
.venv/rehearsed: .venv/cleared
	$(BIN)/python -m benchmarks.demo --rehearse
	touch $@

demo: .venv/rehearsed
	$(BIN)/python -m benchmarks.demo

checked: .venv/dev
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/lint-imports

# What a change usually breaks. Checking takes one core, compiling another. One process runs a file:
# what it loads and prepares serves all of it.
test: .venv/dev
	$(MAKE) -j 2 checked .venv/compiled
	$(ONE_CORE) $(BIN)/pytest -q -n 2 --dist loadfile -m 'not slow' $(COV)

# The rest: whole grids, kill points, long fuzzing. Compiled functions are run as plain Python, too,
# by the first tier's tests of their rooms: this compares the two ways, and shows their lines to the
# coverage.
test-slow: .venv/dev .venv/compiled
	$(ONE_CORE) $(BIN)/pytest -q -n 2 -m slow
	NUMBA_DISABLE_JIT=1 $(ONE_CORE) $(BIN)/pytest -q -n 2 -m '(not slow and not large) or plain' \
		-W ignore::RuntimeWarning $(COV) tests/losses tests/designs tests/cuts tests/sampling tests/interpreted
	$(if $(COVERAGE),$(BIN)/coverage report)

bench: .venv/bench .venv/compiled
	$(ONE_CORE) $(BIN)/python -m benchmarks.bench --output benchmarks/results.json

# The site: every example runs, and a warning is an error. Not a part of `make test`.
docs: .venv/docs .venv/compiled
	rm -rf build/site docs/gallery
	$(ONE_CORE) $(BIN)/python -m sphinx -W --keep-going -b html docs build/site
	$(BIN)/python docs/check_links.py build/site

# Chromium, or Chrome, is the one thing that pip does not install: better to hear of it at once.
browser:
	$(PYTHON) docs/tests/browsing.py

# The built site in a headless Chromium: every page, wide and narrow, light and dark.
docs-test: browser docs .venv/dev
	$(BIN)/pytest -q docs/tests

# What a package index gets; nothing is sent anywhere.
dist: .venv/dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf .venv demo build dist docs/gallery .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
