# Pillion: the tasks of this repository. `make` prints them.
# Each does its own set-up; all that is needed is Python 3.11 or newer, make, and the package registries.
#
#   make test ARGS="tests/core -k retry"     arguments for pytest
#   make setup PYTHON=python3.13             the interpreter of .venv (after `make clean`)

SHELL  := bash
PYTHON ?= python3
VENVS  ?= .
ARGS   ?=

VENV   := $(VENVS)/.venv
BIN    := $(VENV)/bin
SECOND := 3.13
# What an environment is made from: when one of these changes, it is brought up to date.
INPUTS := pyproject.toml core/pyproject.toml $(wildcard integrations/*/pyproject.toml) core/pillion/_version.py scripts/venv.sh

PACKAGES := core/pillion integrations/starlette/pillion_starlette integrations/fastapi/pillion_fastapi
TYPED    := $(foreach dir,$(PACKAGES) tests/typing examples,$(if $(wildcard $(dir)/*.py $(dir)/*/*.py),$(dir)))

export PYRIGHT_PYTHON_GLOBAL_NODE := 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-second test-oldest test-all lint format bench pins clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	    | while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.ready ## make .venv: all distributions in editable form, and the tools (fast when nothing changed)

demo: setup ## a FastAPI app in four processes: photos in, one process killed, nothing lost
	@$(BIN)/python examples/fastapi_app/demo.py $(ARGS)

test: setup ## run the tests
	@$(BIN)/python -m pytest $(ARGS)

test-second: $(VENVS)/.venv-$(SECOND)/.ready ## run the tests on Python 3.13 as well
	@$(VENVS)/.venv-$(SECOND)/bin/python -m pytest $(ARGS)

test-oldest: $(VENVS)/.venv-oldest/.ready ## run the adapters' tests on the oldest FastAPI served (0.110.0)
	@$(VENVS)/.venv-oldest/bin/python -m pytest $(or $(ARGS),tests/adapters)

test-all: test test-second test-oldest ## all three

lint: setup ## ruff, mypy, pyright, import-linter
	@PATH="$(abspath $(BIN)):$$PATH" scripts/lint.sh $(TYPED)

format: setup ## let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENVS)/.venv-$(SECOND)/.ready-bench ## compare with other job queues, side by side (on Python 3.13)
	@$(VENVS)/.venv-$(SECOND)/bin/python -m bench $(ARGS)

pins: ## renew the pins of the tools (constraints*.txt)
	@scripts/pin.sh

clean: ## remove environments, caches and build output
	rm -rf .venv .venv-$(SECOND) .venv-oldest .cache dist .ruff_cache .import_linter_cache
	find core integrations tests examples bench scripts -name __pycache__ -prune -exec rm -rf {} +

# -- environments ------------------------------------------------------------------------------------------------------

$(VENV)/.ready: constraints.txt $(INPUTS)
	@scripts/venv.sh $(VENV) '$(PYTHON)' constraints.txt build test newest lint demo

$(VENVS)/.venv-$(SECOND)/.ready: constraints.txt $(INPUTS)
	@scripts/venv.sh $(@D) "$$(scripts/find_python.sh $(SECOND) || echo python$(SECOND))" constraints.txt build test newest demo

$(VENVS)/.venv-$(SECOND)/.ready-bench: $(VENVS)/.venv-$(SECOND)/.ready
	@$(@D)/bin/python -m pip --disable-pip-version-check install -qq -c constraints.txt --group bench
	@touch $@

$(VENVS)/.venv-oldest/.ready: constraints-oldest.txt $(INPUTS)
	@scripts/venv.sh $(@D) "$$(scripts/find_python.sh 3.11 || echo '$(PYTHON)')" constraints-oldest.txt build test oldest
