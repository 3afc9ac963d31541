# Needs python3 with venv, and make. Everything else is set up here.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs

# Processes that tests start would compile the package anew each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-long lint format docs bench soak release-check clean

demo: $(STAMP)
	$(BIN)/tempering demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not long"

test-long: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or long"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks

soak: $(STAMP)
	$(BIN)/python -m benchmarks.soak --minutes 30

# The Pythons that are here; name others: make release-check PYTHONS="python3.11 python3.13"
PYTHONS ?= $(PYTHON)
release-check:
	release/check.sh $(PYTHONS)

docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Built: site/index.html"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist site demo

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test,lint]"
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@
