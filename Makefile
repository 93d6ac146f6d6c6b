# Every target sets up what it needs in .venv; only Python 3.11+, make and a package index are required.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := -m pip install --quiet --disable-pip-version-check
# Two processes, one test file in one process: a file sets up its cluster or browser once.
TESTS := -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# Tests of rare accidents, and of laws on more data, are those of make test-slow.
FAST := -m "not slow"
# pytest compiles the tests with its assertions, which takes seconds and is kept for the next run.
unexport PYTHONDONTWRITEBYTECODE

OLDEST_PYTHON ?= python3.11
# For make test-pythons.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
# Wheels of the development versions of NumPy, SciPy and others, for make test-nightly.
NIGHTLY ?= https://pypi.anaconda.org/scientific-python-nightly-wheels/simple
# Another BLAS kernel than the fastest of this machine: sums are rounded in another order.
BLAS_KERNEL := $(if $(filter aarch64 arm64,$(shell uname -m)),ARMV8,Nehalem)
# Tests of the mathematics, for make test-rounding.
MATHEMATICS := $(addprefix tests/test_,approximate_search.py baseline_matrices.py curves.py \
	density_ratio.py discriminants.py eigenproblem.py gram_pca.py graph_discriminant.py graphs.py \
	grassmann.py health.py hostile.py input.py lsdr.py methods.py partial_fit.py partition.py \
	principal_axis_tree.py published_methods.py recorded_fits.py retrieval.py \
	sample_weight.py schur_complement.py search.py selection.py tangents_and_scatter.py \
	within_form.py)

.PHONY: demo test test-slow lint lint-release package test-rounding test-oldest test-pythons test-nightly check measure docs pictures bench bench-large fuzz mutations format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo            make sentence embeddings smaller and measure searches; writes demo-output/report.html"
	@echo "make test            run the tests, without those that are marked as slow"
	@echo "make test-slow       run the tests that are marked as slow"
	@echo "make test-rounding   run the tests of the mathematics with another BLAS kernel and one thread"
	@echo "make test-oldest     run the tests with the oldest supported versions (oldest.txt) on Python 3.11"
	@echo "make test-pythons    run the tests with the newest versions on each of PYTHONS=\"$(PYTHONS)\""
	@echo "make test-nightly    run the tests with nightly builds of NumPy, SciPy, scikit-learn, pandas and matplotlib"
	@echo "make package         build wheel and sdist, check them, and use both in an empty environment"
	@echo "make lint-release    check the workflows, issue forms, CITATION.cff and other files of a release"
	@echo "make check           format, lint, types, tests with the coverage of lines and branches"
	@echo "make measure         import graph, sizes, shares of docstrings and comments, validation of docstrings"
	@echo "make fuzz            fit every estimator to hostile data for ten minutes (MINUTES=2 for less)"
	@echo "make mutations       change the mathematics at 60 random points (N=60) and list the changes that no test notices"
	@echo "make docs            build the site: docs/_build/html/index.html"
	@echo "make bench           ratios of time, growth and peak memory, printed as tables"
	@echo "make bench-large     full MNIST and a million samples (needs MPDA_DATA, ten minutes)"

.venv/.demo: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mpda needs Python 3.11 or newer: make demo PYTHON=python3.12")'
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) -e ".[cli]"
	@touch $@

.venv/.dev: .venv/.demo
	$(BIN)/python $(INSTALL) -e ".[dev]"
	@touch $@

demo: .venv/.demo
	$(BIN)/mpda demo

# Compiled once, so that the processes that tests start need not do it.
test: .venv/.dev
	$(BIN)/python -m compileall -q src tests
	$(BIN)/python $(TESTS) $(FAST)

test-slow: .venv/.dev
	$(BIN)/python -m compileall -q src tests
	$(BIN)/python $(TESTS) -m slow

test-rounding: .venv/.dev
	OPENBLAS_CORETYPE=$(BLAS_KERNEL) OPENBLAS_NUM_THREADS=1 $(BIN)/python $(TESTS) $(FAST) $(MATHEMATICS)

.venv-oldest/.test: pyproject.toml oldest.txt
	@$(OLDEST_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "oldest.txt is for Python 3.11: make test-oldest OLDEST_PYTHON=..")'
	test -d .venv-oldest || $(OLDEST_PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python $(INSTALL) -c oldest.txt -e ".[test]"
	.venv-oldest/bin/python -m pip check --disable-pip-version-check
	@touch $@

test-oldest: .venv-oldest/.test
	.venv-oldest/bin/python $(TESTS) -rs

.venv-%/.test: pyproject.toml
	test -d .venv-$* || $* -m venv .venv-$*
	.venv-$*/bin/python $(INSTALL) -e ".[test]"
	@touch $@

test-pythons: $(PYTHONS:%=.venv-%/.test)
	for python in $(PYTHONS); do .venv-$$python/bin/python $(TESTS) -rs || exit 1; done

test-nightly:
	test -d .venv-nightly || $(PYTHON) -m venv .venv-nightly
	.venv-nightly/bin/python $(INSTALL) -e ".[test]"
	.venv-nightly/bin/python $(INSTALL) --pre --upgrade --extra-index-url $(NIGHTLY) \
		numpy scipy scikit-learn pandas matplotlib
	.venv-nightly/bin/python $(TESTS) -rs

.venv/.release: .venv/.demo
	$(BIN)/python $(INSTALL) -e ".[release]"
	@touch $@

SCHEMA := $(BIN)/check-jsonschema --builtin-schema

lint-release: .venv/.release
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) custom.github-workflows-require-timeout .github/workflows/*.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	$(BIN)/zizmor --offline --quiet --min-severity medium .github

package: .venv/.release
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/check_packages.py dist

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint
	$(BIN)/python -m compileall -q src tests
	$(BIN)/python $(TESTS) --cov --cov-report=term

measure: .venv/.dev
	$(BIN)/python tests/measure_code.py

# Minutes of make fuzz, number of changes of make mutations.
MINUTES ?= 10
N ?= 60

fuzz: .venv/.dev
	$(BIN)/python robustness/fuzz.py --minutes $(MINUTES) --out docs/evidence/fuzz.md

mutations: .venv/.dev
	$(BIN)/python robustness/mutations.py --n $(N) --jobs 2 --out docs/evidence/mutations.md $(MATHEMATICS)

.venv/.docs: .venv/.demo
	$(BIN)/python $(INSTALL) -e ".[docs]"
	@touch $@

docs: .venv/.docs
	$(BIN)/sphinx-build -E -W --keep-going -b html docs docs/_build/html

# The images of the README and the start page are those of the demonstration and the gallery.
pictures: docs
	$(BIN)/mpda demo
	cp demo-output/intents.png docs/images/intents.png
	cp docs/gallery/images/sphx_glr_plot_0_noise_001.png docs/images/errors.png
	cp docs/gallery/images/sphx_glr_plot_1_digits_001.png docs/images/digits-2d.png
	cp docs/gallery/images/sphx_glr_plot_2_compression_001.png docs/images/compression.png

bench: .venv/.dev
	$(BIN)/python benchmarks/bench.py

bench-large: .venv/.dev
	for study in precision patches neighbors mnist million database refinement search; do $(BIN)/python benchmarks/scale.py $$study || exit 1; done

format: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache dist docs/_build docs/gallery docs/api/generated
