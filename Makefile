# The daily commands. CI runs `.ci/run`: these, all tests, other versions of Python and JAX.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install format lint types test rest docs serve build check

help:
	@echo "make install | format | lint | types | test | rest | docs | serve | build | check"

.venv: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --editable ".[docs,test]" build
	@touch .venv

install: .venv

format: .venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pyright --project tests --pythonpath $(BIN)/python

test: .venv
	$(BIN)/python -m pytest

rest: .venv
	$(BIN)/python -m pytest -m "integration or slow"

docs: .venv
	$(BIN)/mkdocs build --strict

serve: .venv
	$(BIN)/mkdocs serve

build: .venv
	$(BIN)/python -m build

# ruff, pyright on what changed, and the quick tests that run a function which changed, as
# pytest-testmon has seen it. The first time it runs all of them, and writes `.testmondata`.
changed = $(shell git diff --name-only --diff-filter=d HEAD -- $(1); \
	git ls-files --others --exclude-standard -- $(1))
pyright = $(if $(2),$(BIN)/pyright $(1) --pythonpath $(BIN)/python $(2))
check: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(call pyright,,$(call changed,'envrax/*.py'))
	$(call pyright,--project tests,$(call changed,'tests/*.py' 'examples/*.py' 'benchmarks/*.py'))
	COVERAGE_CORE=ctrace $(BIN)/python -m pytest --testmon --testmon-forceselect
