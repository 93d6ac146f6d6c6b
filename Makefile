# Every target sets up what it needs in .venv; only Python 3.11+, make and a package index are required.
PYTHON ?= python3
BIN := .venv/bin
# Two at a time, a file in one process: what a file sets up, a cluster or a browser, is there once.
TESTS := -m pytest -n 2 --dist loadfile --no-loadscope-reorder

OLDEST_PYTHON ?= python3.11
ARRAY_TESTS := $(addprefix tests/test_,arrays.py array_pieces.py partition_arrays.py sklearn_checks.py export.py persistence.py)
# For make test-pythons.
PYTHONS ?= python3.11 python3.12 python3.13

.PHONY: demo test lint test-oldest test-pythons check docs pictures bench bench-large fuzz kills mutations format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up and compare MPDA with 1-NN, PCA, LDA and LFDA on the bundled digits; writes demo-output/report.html"
	@echo "make test    set up and run the tests"
	@echo "make test-oldest    the same with the oldest versions of everything (oldest.txt, oldest-arrays.txt), on Python 3.11"
	@echo "make test-pythons   the same with the newest on each of PYTHONS=\"$(PYTHONS)\""
	@echo "make check   format, lint, types, then the tests with the coverage of lines and branches"
	@echo "make fuzz    hostile data for every estimator, attacked files for every reader; ten minutes, or MINUTES=2"
	@echo "make kills   kill the reproduction fifty times and compare what it ends with"
	@echo "make mutations   break the mathematics in many places and say which test notices each"
	@echo "make docs    build the site: docs/_build/html/index.html"
	@echo "make bench   ratios of time, growth and peak memory, printed as tables"
	@echo "make bench-large   full MNIST and a million samples (needs MPDA_DATA, ten minutes)"

.venv/.demo: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mpda needs Python 3.11 or newer: make demo PYTHON=python3.12")'
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[cli]"
	@touch $@

.venv/.dev: .venv/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

demo: .venv/.demo
	$(BIN)/mpda demo

# Compiled once: not every process that the tests start has to do it, or may write it down.
test: .venv/.dev
	$(BIN)/python -m compileall -q src tests
	$(BIN)/python $(TESTS)

.venv-oldest/.test .venv-oldest-arrays/.test: .venv-%/.test: pyproject.toml %.txt
	@$(OLDEST_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "the oldest versions are for Python 3.11: make test-oldest OLDEST_PYTHON=..")'
	test -d .venv-$* || $(OLDEST_PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -c $*.txt -e ".[test]"
	.venv-$*/bin/python -m pip check --disable-pip-version-check
	@touch $@

# Arrays of other libraries have bounds of their own, and are skipped by the first of the two.
test-oldest: .venv-oldest/.test .venv-oldest-arrays/.test
	.venv-oldest/bin/python $(TESTS) -rs
	.venv-oldest-arrays/bin/python $(TESTS) -rs $(ARRAY_TESTS)

.venv-%/.test: pyproject.toml
	test -d .venv-$* || $* -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	@touch $@

test-pythons: $(PYTHONS:%=.venv-%/.test)
	for python in $(PYTHONS); do .venv-$$python/bin/python $(TESTS) -rs || exit 1; done

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint
	$(BIN)/python -m compileall -q src tests
	$(BIN)/python $(TESTS) --cov --cov-report=term

# What robustness/ has: hostile data and attacked files, kills, breaks of the mathematics.
MINUTES ?= 10

fuzz: .venv/.dev
	$(BIN)/python robustness/fuzz.py --minutes $(MINUTES)

kills: .venv/.dev
	$(BIN)/python robustness/kills.py

mutations: .venv/.dev
	$(BIN)/python robustness/mutations.py --jobs 2

.venv/.docs: .venv/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

docs: .venv/.docs
	$(BIN)/sphinx-build -E -W --keep-going -b html docs docs/_build/html

# Those of the README, as the gallery draws them.
pictures: docs
	cp docs/gallery/images/sphx_glr_plot_1_digits_001.png docs/images/digits-2d.png
	cp docs/gallery/images/sphx_glr_plot_2_compression_001.png docs/images/compression.png

bench: .venv/.dev
	$(BIN)/python benchmarks/bench.py

bench-large: .venv/.dev
	for study in precision patches mnist million; do $(BIN)/python benchmarks/scale.py $$study || exit 1; done

format: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache docs/_build docs/gallery docs/api/generated
