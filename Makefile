# `make` lists the targets. Needs Python 3.11+ and make, nothing else; make neo4j skips its tests where neither NEO4J_URL
# nor Java with Maven is there.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Earlier releases know no dependency groups.
NEW_PIP = $(PIP) --upgrade "pip>=25.1"
# uv takes a fifth of pip's time. It does not read pip's configuration file, so pip takes over where uv finds no index.
UV := env $${PIP_INDEX_URL:+UV_DEFAULT_INDEX="$$PIP_INDEX_URL"} $${PIP_FIND_LINKS:+UV_FIND_LINKS="$$PIP_FIND_LINKS"} \
	$${PIP_CERT:+SSL_CERT_FILE="$$PIP_CERT"} \
	$(BIN)/uv pip install --quiet --python $(BIN)/python
SATELLITES := agents bench conformance hindsight integrations neo4j replay server sync
DATA ?= ../shared/data
# Processes that are forked once the tests are collected, where a process with threads can be forked.
WORKERS := $(if $(filter Linux,$(shell uname -s)),--forks 3,-n 3 --dist loadfile --no-loadscope-reorder)

# The tests start many processes; without bytecode files each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check pytest neo4j integrations bench docs clean

help:
	@echo "make demo          show all verbs on a sample conversation"
	@echo "make test          run the checks and the tests that CI runs"
	@echo "make check         run the checks only: style, formatting, imports, types"
	@echo "make neo4j         run the tests on Neo4j; needs NEO4J_URL, or Java and Maven"
	@echo "make integrations  test each agent framework in an environment of its own; NAMES=\"adk crewai\" tests some"
	@echo "make bench         measure recall on the packaged sample, and speed"
	@echo "make docs          build the documentation into site/"
	@echo "make clean         delete .venv and everything that was built"
	@echo "The first run installs into .venv, which takes a few minutes. It needs Python 3.11 or newer."

demo: $(VENV)/.core
	$(BIN)/vmemo demo

# The checks take one core for a minute, so they run beside the tests.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 check pytest

# One process more than two cores: a test that waits for a server or a deadline leaves its core to another.
pytest: $(VENV)/.dev
	$(BIN)/python -m pytest $(WORKERS) -rs -m "not neo4j"

check: $(VENV)/.dev
	$(BIN)/python scripts/check_style.py
	$(BIN)/python scripts/check_size.py
	$(BIN)/python scripts/check_regex.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/lint-imports --config agents/pyproject.toml
	$(BIN)/lint-imports --config replay/pyproject.toml
	$(BIN)/lint-imports --config sync/pyproject.toml
	$(BIN)/python scripts/check_types.py

neo4j: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -rs -m neo4j

# NAMES="adk crewai" tests some; without it, all, and the wheel.
integrations: $(VENV)/.dev
	$(if $(NAMES),,$(BIN)/python -m scripts.check_wheel)
	$(BIN)/python scripts/integrations.py $(NAMES)

bench: $(VENV)/.dev
	$(BIN)/vmemo benchmark sample
	$(BIN)/vmemo benchmark speed

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/.pip:
	@test -n "$(PYTHON)" || { echo "vmemo needs Python 3.11 or newer; none was found."; exit 1; }
	@echo "Creating .venv with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --constraint constraints.txt uv || true
	@touch $@

$(VENV)/.core: $(VENV)/.pip pyproject.toml constraints.txt
	@echo "Installing vmemo and its dependencies into .venv (once, about 300 MB) ..."
	@$(UV) --constraint constraints.txt --editable . || \
		$(PIP) --constraint constraints.txt --editable .
	@touch $@

# Not after .core, because two installations take longer than one of everything.
$(VENV)/.dev: $(VENV)/.pip $(addsuffix pyproject.toml,./ $(SATELLITES:=/)) constraints.txt
	@echo "Installing all distributions, and what the tests need, into .venv (once, a few minutes) ..."
	@$(UV) --constraint constraints.txt $(addprefix --editable ,. $(SATELLITES)) --group dev || { $(NEW_PIP) && \
		$(PIP) --constraint constraints.txt $(addprefix --editable ,. $(SATELLITES)) --group dev; }
	@touch $(VENV)/.core $@

$(VENV)/.docs: $(VENV)/.core
	@echo "Installing MkDocs into .venv (once) ..."
	@$(UV) --constraint constraints.txt --group docs || { $(NEW_PIP) && \
		$(PIP) --constraint constraints.txt --group docs; }
	@touch $@

clean:
	rm -rf $(VENV) .venv-integrations site dist build .pytest_cache .ruff_cache .import_linter_cache
