# Everything is done in .venv; `make` prints the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Tests start hundreds of processes: where the environment forbids bytecode, each would compile all modules again (0.7 s of CPU).
export PYTHONDONTWRITEBYTECODE :=
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
WORKERS ?= 3
REST_WORKERS ?= 5
SEED ?= 0
ARGS ?=
CHOSEN ?=
CHOICE := build/choice.json
PYTEST := $(BIN)/pytest --dist loadgroup
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PURE := tests/unit tests/property tests/scenarios tests/simulation tests/model tests/test_tidy.py tests/test_maps.py tests/test_words.py
TOOLS := tests/tools/bench tests/tools/connect tests/tools/fuzz tests/tools/peers tests/tools/rig tests/tools/soak

.PHONY: help setup demo demo-live fast rest test record custom-sink matrix hostile fuzz soak check format lint types stubs pages bench bench-peers connect sim screenshots lock dist deb clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: $(STAMP) ## make .venv with the locked dependencies, and check that Java is there

$(STAMP): requirements.lock pyproject.toml deploy/check-machine
	@PYTHON=$(PYTHON) bash deploy/check-machine
	@$(PYTHON) -m venv .venv
	@echo "installing the locked dependencies into .venv (up to two minutes the first time)"
	@awk '/^[a-z]/ { ours = /^uv==/ } ours' requirements.lock > .venv/uv.lock
	@$(PIP) --require-hashes -r .venv/uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock || $(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --editable .
	@touch $@

demo: setup ## 110,000 rows are dumped beside a busy stream, through a crash; verify the output, write the report of the dump, print the life of a key (under 45 s)
	@$(BIN)/ticdc-dump demo

fast: setup ## the tests that need no server and no Spark (about six minutes on two cores)
	@TICDC_DUMP_LANE=fast $(PYTEST) -n $(WORKERS) $(PURE)

rest: setup ## all tests but those of `fast`, and those of tools, which `make matrix` has
	@$(PYTEST) -n $(REST_WORKERS) $(PURE:%=--ignore=%) $(TOOLS:%=--ignore=%)

test: setup ## all tests: those of `fast`, and where they pass the rest (CHOSEN=1: only those that the changes since everything passed concern)
	@$(if $(filter-out 0,$(CHOSEN)),$(BIN)/python -m tests.choice --out $(CHOICE) $(ARGS))
	@$(if $(filter-out 0,$(CHOSEN)),TICDC_DUMP_CHOICE=$(CHOICE)) $(MAKE) --no-print-directory fast
	@$(if $(filter-out 0,$(CHOSEN)),TICDC_DUMP_CHOICE=$(CHOICE)) $(MAKE) --no-print-directory rest

record: setup ## run everything, and where it passes record this commit, from which on tests are chosen (tests/choice)
	@$(BIN)/python -m tests.choice --can-record
	@env -u TICDC_DUMP_CHOICE -u PYTEST_ADDOPTS $(MAKE) --no-print-directory CHOSEN= check
	@$(BIN)/python -m tests.choice --record

custom-sink: setup ## test what TiCDC's own sink sends with, against this sidecar, too: the Go client, its command and the URI (needs Go; nothing of TiCDC is built; OUTAGE=60s)
	@command -v go >/dev/null || { echo "custom-sink needs Go 1.25 or later: there is no go in PATH" >&2; exit 1; }
	@$(MAKE) --no-print-directory -C deploy/push/go test
	@echo "tested: the Go module, alone and with processes of the sidecar. Not tested: deploy/push/sink, which compiles inside TiCDC's module only, and a cdc with it"

matrix: setup ## all tests, with every schedule of every recording, feed and kind of brackets, and many more examples (tests/lanes.py)
	@TICDC_DUMP_LANE=matrix $(PYTEST) -n $(WORKERS)

hostile: setup ## what an attacker and an unlucky operator try, on loopback: a table of inputs, hangs, silent acceptances, leaks and foreign errors (ARGS="control" for an area)
	@$(BIN)/python -m tests.tools.hostile $(ARGS)

fuzz: setup ## a million damaged messages of each protocol, each read as a slow reader reads it or refused by an error of ours (ARGS="--messages 20000 --only kv --seed 7")
	@$(BIN)/python -m tests.tools.fuzz $(ARGS)

soak: setup ## the whole product under the rig's disasters, dump after dump: how memory, descriptors, threads and the log grow (ARGS="--minutes 60")
	@$(BIN)/python -m tests.tools.soak $(ARGS)

check: lint types stubs test ## format, lint, types, stubs, then all tests

format: setup ## rewrite the code in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: setup ## format and lint, changing nothing
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: setup ## mypy --strict
	@$(BIN)/mypy

stubs: setup ## regenerate the gRPC stubs and fail if they differ from what is committed (Go's where its generators are)
	@$(BIN)/python -m tests.support.stubs
	@$(MAKE) --no-print-directory -C deploy/push/go stubs-where-installed

pages: setup ## write what is made from the code: deploy/COMMANDS.md, deploy/METRICS.md, the sinks' tables of parameters, deploy/images (a test fails where one is not current)
	@$(BIN)/python -m tests.support.pages
	@$(BIN)/python -m tests.support.option_tables

bench: setup ## measure: ratios to something measured in the same run
	@$(BIN)/python -m tests.tools.bench

bench-peers: setup ## measure beside Debezium and mydumper on the same rows and writes: make bench-peers ARGS="--runs 5" (needs Maven)
	@$(BIN)/python -m tests.tools.peers $(ARGS)

connect: setup ## readers that nobody here wrote (Debezium's JDBC sink, Iceberg's) read the Kafka sink's protocol=debezium: ARGS="--only iceberg" (needs Maven and PostgreSQL)
	@$(BIN)/python -m tests.tools.connect $(ARGS)

sim: setup ## live through one seed of the simulation again: make sim SEED=42
	@$(BIN)/python -m tests.simulation $(SEED)

demo-live: setup ## the demo on real servers: MariaDB, Kafka and etcd, a dump paused, resumed and restarted (needs Maven; ARGS=--files: without Kafka and TiCDC's etcd)
	@$(BIN)/python -m tests.tools.rig.demo $(ARGS)

screenshots: setup ## renew the console's pictures in deploy/images (needs chromium)
	@$(BIN)/python -m tests.support.screenshots

lock: ## lock the dependencies again (needs uv in .venv)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --all-extras --group dev pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --all-extras --constraints requirements.lock pyproject.toml -o requirements-runtime.lock

dist: setup ## build the wheel and the source distribution into dist, twice, and compare the bytes
	@$(BIN)/python -m tests.support.distribution dist

deb: dist ## build the Debian package into dist, for the Python of this Debian or Ubuntu (DEB_PYTHON=/usr/bin/python3)
	@deploy/debian/build dist/*.whl dist

clean: ## remove what was made
	@rm -rf .venv out build dist spark-warehouse .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find sidecar spark_merge proto tests -name __pycache__ -prune -exec rm -rf {} +
