# keepstep: everything a developer runs. `make help` lists it.
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo dev test test-unit test-browser lint format bench bench-growth bench-peers bench-docs crash build clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): setup.cfg pyproject.toml
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing keepstep and its tools into $(VENV) ..."
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=23' 'setuptools>=77'
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(STAMP) ## the main job: 42 steps, a worker killed at step 34, an approval
	@$(RUN)/keepstep demo

dev: $(STAMP) ## PostgreSQL, Valkey, workers and Flower in the foreground
	@$(RUN)/keepstep dev

test: $(STAMP) ## every test but the long ones, on real servers, in under five minutes
	@$(RUN)/pytest -n $(JOBS) --dist loadgroup -m "not slow"

test-unit: $(STAMP) ## the pure tests only
	@$(RUN)/pytest tests/unit

test-browser: $(STAMP) ## Flower's pages in a real headless Chromium; SHOTS=folder keeps screenshots
	@KEEPSTEP_SHOTS=$(SHOTS) $(RUN)/pytest tests/browser

lint: $(STAMP) ## ruff, mypy (strict) and the import contracts
	@$(RUN)/ruff check .
	@$(RUN)/ruff format --check .
	@$(RUN)/mypy
	@$(RUN)/lint-imports setup.cfg

format: $(STAMP) ## let ruff rewrite the code
	@$(RUN)/ruff format .
	@$(RUN)/ruff check --fix .

bench: $(STAMP) ## speed, costs a step and recovery times, as tables
	@$(RUN)/python -m benchmarks $(BENCH)

bench-peers: $(STAMP) ## keepstep beside its peers; PEERS and PEERS_HOME as in docs/performance.md
	@$(RUN)/python -m benchmarks.peers $(BENCH)

bench-growth: $(STAMP) ## bytes and time a step in long cases and large states, and beside retention
	@$(RUN)/python -m benchmarks --pools prefork --only lengths --only pruning $(BENCH)

bench-docs: $(STAMP) ## measure all that docs/performance.md tells, and write it there
	@$(RUN)/python -m benchmarks --rounds 3 --runs 10 --only speed --only costs --only waiting --only mixed \
		--only growth --only lengths --only pruning --only backlog --only recovery --into docs/performance.md
	@$(RUN)/python -m benchmarks.peers --into docs/performance.md

crash: $(STAMP) ## the crash tests, long ones included
	@KEEPSTEP_TEST_FRESH=1 $(RUN)/pytest -n $(JOBS) --dist loadgroup -m "crash or slow"

chaos: $(STAMP) ## ten minutes of random faults under 1,000 cases; options: make chaos CHAOS="--help"
	@$(RUN)/python -m benchmarks.chaos $(CHAOS)

build: $(STAMP) ## wheel and sdist into dist/
	@$(RUN)/python -m build --outdir dist .

clean: ## remove what was built; keeps .venv and .keepstep
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
