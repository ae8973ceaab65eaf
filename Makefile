# `make run` and `make test` do all the set-up they need; PYTHON=/path/to/python3.x chooses the Python of .venv.

VENV := .venv
STAMP := $(VENV)/.windrow-setup
ARCHIVE := $(VENV)/share/windrow/spark-classes.jsa
BIN := $(VENV)/bin
INPUTS := requirements.txt requirements-dev.txt requirements-build.txt pyproject.toml scripts/setup_venv.sh

# Rebuild the environment if it does not run, or if PYTHON is of another version.
SHOW_VERSION := -c 'import sys; print(sys.version.split()[0])' 2>/dev/null
HAVE := $(shell $(BIN)/python $(SHOW_VERSION))
WANT := $(if $(PYTHON),$(shell $(PYTHON) $(SHOW_VERSION)),$(HAVE))
STALE := $(if $(HAVE),$(if $(filter $(HAVE),$(WANT)),,stale),stale)

WITH_JAVA := JAVA_HOME="$$(cat $(VENV)/java_home)"

# Tests wait for Spark more than they compute. Each process has a Spark session of its own, about 2 GB.
WORKERS ?= 3
PARALLEL := -n $(WORKERS) --dist loadgroup

AGAIN := .pytest_cache/v/cache/lastfailed
# More failures than this are no matter of a busy machine.
MOST_AGAIN := 5

.DEFAULT_GOAL := help
.PHONY: help setup java run test test-again test-fast test-matrix fuzz check bench clean stale

help:
	@echo "make run          set up, then the demo: simulated traffic, standing queries, a join, live answers"
	@echo "make test         set up, then every test"
	@echo "make test-again   the tests that failed, one by one"
	@echo "make test-fast    the tests that are not slow"
	@echo "make test-matrix  every .test file under every pair of settings, and properties on new random examples (long)"
	@echo "make fuzz         mutated statements and records: COUNT=10000 of each, SEED=1"
	@echo "make check        ruff, mypy, import layers, docs in step"
	@echo "make bench        the benchmarks"
	@echo "make setup        only the set-up: .venv with pinned dependencies, and Java 17 or newer"
	@echo "make clean        remove .venv and caches"

$(STAMP): $(INPUTS) $(STALE)
	@PYTHON="$(PYTHON)" sh scripts/setup_venv.sh $(VENV)
	@touch $@

java: $(STAMP)
	@sh scripts/ensure_java.sh > $(VENV)/java_home.new
	@mv $(VENV)/java_home.new $(VENV)/java_home

# Spark starts faster with it, and everything works without it.
$(ARCHIVE): $(STAMP)
	-@$(WITH_JAVA) $(BIN)/windrow warm-up

setup: $(STAMP) java $(ARCHIVE)

run: setup
	$(WITH_JAVA) $(BIN)/windrow demo

test: setup
	$(WITH_JAVA) $(BIN)/python -m pytest $(PARALLEL)

# Three processes share the cores of CI, and some tests wait for a clock. One that fails again, alone, has failed.
test-again: setup
	@$(BIN)/python -c "import json, sys; found = sorted(json.load(open('$(AGAIN)'))); \
	  print(len(found), 'failed:', *found, sep='\n  '); sys.exit(not 0 < len(found) <= $(MOST_AGAIN))"
	$(WITH_JAVA) $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-fast: setup
	$(WITH_JAVA) $(BIN)/python -m pytest $(PARALLEL) -m "not slow"

# All of it takes an hour or two; TESTS="tests/crash tests/engine" runs a part.
test-matrix: TESTS ?= tests
test-matrix: setup
	$(WITH_JAVA) WINDROW_MATRIX=full $(BIN)/python -m pytest $(PARALLEL) -m matrix --timeout=14400 $(TESTS)
	$(WITH_JAVA) $(BIN)/python -m pytest $(PARALLEL) -m hypothesis --hypothesis-profile=random $(TESTS)

fuzz: COUNT ?= 10000
fuzz: SEED ?= 1
fuzz: setup
	$(WITH_JAVA) PYTHONPATH=tests $(BIN)/python -m fuzz statements --count $(COUNT) --seed $(SEED)
	$(WITH_JAVA) PYTHONPATH=tests $(BIN)/python -m fuzz records --count $(COUNT) --seed $(SEED)

bench: setup
	$(WITH_JAVA) $(BIN)/windrow bench all

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_layers.py
	$(WITH_JAVA) $(BIN)/python scripts/check_docs.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
