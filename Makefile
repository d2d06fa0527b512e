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

# What changed since a revision, and the quick tests nearest to it. `make check SINCE=main` for a
# branch; `.ci/run --since main` runs all that it reaches.
SINCE ?= HEAD
check: .venv
	$(BIN)/python .ci/reach.py check $(SINCE)
