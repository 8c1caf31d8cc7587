# Everything a developer needs, from a fresh clone. A bare `make` lists it.
# Hand options on with ARGS, for example: make demo ARGS="--json"   make test ARGS="tests/unit -x"

PYTHON ?= python3
# The servers that the tests use; `dev/services --help` knows more.
# DynamoDB's is built by cargo, in some minutes, once: where there is none, it is left out.
DYNAMODB := $(if $(or $(shell command -v cargo),$(wildcard $(HOME)/.cargo/bin/cargo $(HOME)/.cache/fencepost/dynoxide-*)),dynamodb)
SERVERS ?= postgresql mariadb nats kafka apicurio redis rabbitmq mqtt sqs sns secantusdb mongo-java-server $(DYNAMODB)
ARGS ?=
# So many tests at a time; WORKERS=0 runs them in one process, as a debugger wants it.
WORKERS ?= 3

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The demo needs little: where the whole environment is not there, a small one is made much sooner.
DEMO_VENV := $(if $(wildcard $(STAMP)),$(VENV),.venv-demo)
SOURCES := $(wildcard src tests dev bench examples)

.DEFAULT_GOAL := help
.PHONY: help demo test test-long torture check services bench docs clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_VENV)/.installed ## watch committed orders arrive at a broker while the relay is killed (20 s, no server needed)
	@$(DEMO_VENV)/bin/fencepost demo $(ARGS)

test: check ## check the code, start the servers the tests use, run the tests
	@$(BIN)/python dev/services install $(SERVERS)
	@code=0; \
	{ $(BIN)/python dev/services up $(SERVERS) && $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS); } || code=$$?; \
	if [ -n "$$CI" ]; then $(BIN)/python dev/services down --delete; fi; \
	exit $$code

test-long: services ## the longer forms of the torture tests (a few minutes more)
	@$(BIN)/python -m pytest -m long $(ARGS)

torture: services ## kill, pause, cut off, restart: PostgreSQL to Kafka, then SQLite to NATS (ARGS="--minutes 10")
	@$(BIN)/python tests/torture/both_routes.py $(ARGS)

check: $(STAMP) ## lint, formatting, types, who may import whom
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports

services: $(STAMP) ## start the servers for the tests (SERVERS="postgresql nats kafka")
	@$(BIN)/python dev/services install $(SERVERS)
	@$(BIN)/python dev/services up $(SERVERS)

bench: services ## measure the relay on this machine, beside the ceiling of the same run
	@$(BIN)/python bench/relay.py $(ARGS)

docs: ## check that every link in the documentation leads somewhere
	@$(PYTHON) dev/check_docs.py

clean: ## stop the servers, remove their data, the environments and all caches
	@$(PYTHON) dev/services down --delete
	rm -rf $(VENV) .venv-demo .services .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find src tests dev bench examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(STAMP): pyproject.toml
	@echo "making $(VENV) (a minute or two, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

.venv-demo/.installed: pyproject.toml
	@echo "making .venv-demo (less than a minute, once)"
	@$(PYTHON) -m venv .venv-demo
	@.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@
