# One word per habit. `make tour` and `make test` set up what they need themselves.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
CHECKED = src tests docs benchmarks

.PHONY: help tour test lint types check bench mutants docs clean

help:
	@echo "make tour     set up and write the tour page (the first thing to try)"
	@echo "make test     set up and run all tests"
	@echo "make check    lint, types and tests: the gate"
	@echo "make lint     style and format        make types    strict type checker"
	@echo "make bench    speed ratios            make mutants  which law finds which mistake"
	@echo "make docs     write the generated pages"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Richter needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

# PyTorch is for the tour's last figure, a trained network; without it `richter tour` writes the rest.
$(VENV)/tour.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plot,torch]'
	@touch $@

$(VENV)/dev.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[all,dev]'
	@touch $@ $(VENV)/tour.stamp

tour: $(VENV)/tour.stamp
	$(BIN)/richter tour

# Two workers of one thread each: more threads than cores would wait for each other.
test: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --quiet -n 2 --dist worksteal

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)

types: $(VENV)/dev.stamp
	$(BIN)/mypy

check: lint types test

bench: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/ratios.py

mutants: $(VENV)/dev.stamp
	$(BIN)/python -m richter.testing.mutants

docs: $(VENV)/dev.stamp
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist richter-tour .pytest_cache .mypy_cache .ruff_cache
