# `make help` lists what there is to do. The work is done by scripts/; each target brings the checkout up to date first.

PYTHON := .venv/bin/python
PYTEST := .venv/bin/pytest
LAB := $(PYTHON) -m lab enter
# Two fleets side by side, each with half of the files, in order: a fleet belongs to the directory of its tests.
FLEETS := --dist loadfile --no-loadscope-reorder --tx "2*popen//python=$(LAB) -- $(PYTHON)"
HOST ?= 127.0.0.1
PORT ?= 8000

# What was compiled once is not compiled again at each start, whatever the machine says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo run check test test-full e2e scenarios verdicts bench screenshots lint clean

help: ## Say what there is to do
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install everything that is missing (as root also system packages)
	@scripts/setup test

demo: ## Run the panel with a simulated fleet of GPU hosts: http://127.0.0.1:8000
	@scripts/setup demo
	@$(LAB) --listen $(HOST):$(PORT) -- $(PYTHON) -m lab demo

run: ## Run the panel for your own hosts: http://127.0.0.1:8000 (HOST=, PORT=)
	@scripts/setup run
	@$(PYTHON) manage.py panel --host $(HOST) --port $(PORT)

check: ## Lint, types, migrations and the quick tests (under a minute)
	@scripts/setup test
	@scripts/check

test: check ## Everything a change must pass: check, the simulated fleet, a browser
	@scripts/ring $(PYTEST) -q -n 2 -m "(process or jobs or long) and not slow"
	@scripts/ring $(PYTEST) -q $(FLEETS) -m "lab and not slow and not e2e"
	@scripts/ring $(LAB) -- $(PYTEST) -q -m "e2e and not slow"

test-full: check ## All tests, the slow ones too
	@scripts/ring $(PYTEST) -q -m "process or jobs or long or (slow and not lab and not e2e)"
	@scripts/ring $(PYTEST) -q $(FLEETS) -m "lab and not e2e"
	@scripts/ring $(LAB) -- $(PYTEST) -q -m e2e

e2e: ## The browser tests
	@scripts/setup test
	@$(LAB) -- $(PYTEST) -q -m e2e

scenarios: ## The stories that must work, on the simulated fleet; prints SCENARIOS n/16
	@scripts/setup test
	@scripts/scenarios

verdicts: ## Every situation of stop and verify over ssh, pct and local; prints VERDICTS n/N
	@scripts/setup test
	@scripts/verdicts

bench: ## The benchmarks (ONLY="restart idle release benchmark history logs fleet live plan", RUNS=5)
	@scripts/setup test
	@ONLY="$(ONLY)" scripts/bench

screenshots: ## The pictures in docs/screenshots, from the demo in a real browser
	@scripts/setup test
	@$(LAB) -- $(PYTHON) -m tests.e2e.screenshots

lint: ## Format the code and mend what can be mended
	@scripts/setup test
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

clean: ## Remove what set-up and tests made; the panel's data in var/ stays
	rm -rf .venv .venv-tools node_modules static/vendor staticfiles lab/build .mypy_cache .ruff_cache .pytest_cache .hypothesis
