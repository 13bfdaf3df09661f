# Everything here works on a bare Debian 12 or 13 as root, can be run twice, and leaves nothing
# running. Start with `make demo` or `make test`.
SHELL := /bin/bash
VENV := .venv/bin
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: help demo test check bench man clean setup
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## Watch gsched do its main job on a private real Slurm (two minutes)
	@$(VENV)/gsched testbed demo

test: setup ## Pass all tests, those on a real Slurm too (half an hour)
	@$(VENV)/python tests/run_all.py --durations=10 --durations-min=1

check: setup ## Lint, types, who may import whom, manual pages
	@$(VENV)/ruff format --check .
	@$(VENV)/ruff check .
	@$(VENV)/mypy
	@$(VENV)/lint-imports
	@$(VENV)/python -m pytest -q tests/unit/architecture tests/cli/test_man.py

bench: setup ## Measure and record in tests/results
	@for bench in tests/bench/bench_*.py; do $(VENV)/python $$bench || exit 1; done

man: setup ## Write the manual pages and sql/SCHEMA.md anew from the program
	@$(VENV)/python -m gsched_cli.manpages man sql/SCHEMA.md

clean: ## Remove .venv and whatever the tools have left in the checkout
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@.ci/bootstrap
