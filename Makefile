# Every target works in a fresh clone: it makes .venv from requirements.txt first, and again when that file changes.
#
#   PYTHON=python3.12       the interpreter .venv is made with (3.11 to 3.13)
#   TORCH_INDEX=URL         an index to take torch from, e.g. the one with the CPU builds (see README.md)
#   ARGS="..."              more arguments for train, bench, chapters
#   BOOK_URL=https://…/     the address the built book will be published under

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help book test lab serve train bench chapters clean

IN_RANGE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell $(p) -c '$(IN_RANGE)' 2>/dev/null && echo $(p))))
BIN := .venv/bin
STAMP := .venv/.stamp
ARGS ?=
PORT ?= 8000
export BOOK_URL
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONNOUSERSITE := 1
# PyTorch's idle threads shall sleep, not spin on a core that a simulation wants.
export OMP_WAIT_POLICY ?= PASSIVE

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

$(STAMP): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found; name one with make PYTHON=…" >&2; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) --version); the first time takes some minutes."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The package's files are inputs too: the reference is made from their docstrings.
BOOK := _config.yml _toc.yml $(shell find book mamlrl_core -type f -not -path '*/.*' -not -name '*.pyc')

# All pages every time: a warning about a page that was not read again would be lost.
_build/html/.stamp: $(STAMP) $(BOOK)
	@echo "Building the book into _build/html."
	@jupyter-book build . --all --warningiserror --nitpick --keep-going -q
	@touch $@

book: _build/html/.stamp ## Build the book into _build/html
	@echo "The book is built: open _build/html/index.html"

test: $(STAMP) ## Check everything: lint, unit tests, every chapter re-executed, the built pages in a browser
	@tests/run

lab: $(STAMP) ## Open the chapters in JupyterLab
	@echo "Starting JupyterLab in book/; stop it with Ctrl-C."
	@jupyter lab --notebook-dir=book $(ARGS)

serve: book ## Serve the built book at http://localhost:8000 (PORT=…)
	@echo "Serving the book at http://localhost:$(PORT); stop with Ctrl-C."
	@python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

train: $(STAMP) ## Meta-train on 2-D navigation (ARGS="--help" shows what can be set)
	@echo "Training."
	@python -m mamlrl_core train $(ARGS)

bench: $(STAMP) ## Measure the environments and the meta-step side by side
	@echo "Measuring; leave the machine alone meanwhile."
	@python -m benchmarks $(ARGS)

chapters: $(STAMP) ## Re-execute the chapters and store their outputs (ARGS="--check" only compares)
	@cd book && python -m bookkit.run $(ARGS)

clean: ## Remove what the other targets made, .venv included
	@echo "Removing .venv, _build, runs and caches."
	@rm -rf .venv _build runs .pytest_cache .ruff_cache mamlrl_core.egg-info
	@find . -name __pycache__ -prune -exec rm -rf {} +
