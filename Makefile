# Two commands do everything a new machine needs: `make demo` and `make test`.
# Needs git, make and Python 3.11 or newer; everything else is installed into .venv.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV_VERSION := 0.13.9
UV := .venv/bin/uv
SYNC = VIRTUAL_ENV= UV_PROJECT_ENVIRONMENT=.venv $(UV) sync --locked --quiet
export UV_COMPILE_BYTECODE = 1
# The machine's own certificates, as pip takes them: behind some proxies no others are valid.
export UV_SYSTEM_CERTS = 1
# Tests start thousands of interpreters: none compiles the sources anew, and no worker the tests, whatever the environment
# says of bytecode.
export PYTHONDONTWRITEBYTECODE =
COMPILE = .venv/bin/python -m compileall -q src packages
PYTEST = .ci/in-memory .venv/bin/python -m pytest -n auto --dist worksteal $(WORDS)

.PHONY: everyday pictures release bench bench-provenance help setup demo unit test live test-all test-crash stress mutate lint types reference docs wheel ci clean

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: .venv/ready  ## make .venv with everything, from the lock file

$(UV):
	@test -n "$(PYTHON)" || { echo 'remit needs Python 3.11 or newer: none of python3, python3.11 … python3.14 is. Install one, or run: make PYTHON=/path/to/python3'; exit 2; }
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv || { rm -rf .venv; echo 'hint: on Debian and Ubuntu, venv is a package of its own: apt install python3-venv'; exit 2; }
	.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/ready: pyproject.toml uv.lock $(wildcard packages/*/pyproject.toml) | $(UV)
	$(SYNC) --inexact
	@touch .venv/ready .venv/product

.venv/product: pyproject.toml uv.lock | $(UV)
	$(SYNC) --inexact --no-dev
	@touch .venv/product

demo: .venv/product  ## the whole story in a throw-away repository, without any agent installed
	@.venv/bin/remit demo

unit: .venv/ready  ## the tests that start no process: before each commit
	$(COMPILE)
	$(PYTEST) -m unit

test: .venv/ready  ## the gate: all tests but whole stories
	$(COMPILE)
	$(PYTEST) -m "unit or system"

live: .venv/ready  ## whole stories: agents (fetched from their registry), browsers, fleets; FILES="tests/e2e …"
	$(COMPILE)
	$(PYTEST) -m "live and not exhaustive" $(FILES)

test-all: .venv/ready  ## every test but `test-crash`
	$(COMPILE)
	$(PYTEST) -m "not exhaustive"

test-crash: .venv/ready  ## a kill at every single write of a hook, a call and a run of the agent: half an hour
	$(COMPILE)
	$(PYTEST) -m exhaustive

stress: .venv/ready  ## changed rooms' tests under load and with stopped processes; WORDS="--all", WORDS="--test NAME"
	$(COMPILE)
	.venv/bin/python tests/stress.py $(WORDS)

mutate: .venv/ready  ## change conditions of the pure rooms, and see that tests notice; WORDS="--changed main", "--count 0"
	nice .venv/bin/python -m benchmarks.mutate $(WORDS)

lint: .venv/ready  ## style, imports, dependencies, dead code
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/lint-imports
	.venv/bin/deptry src
	cd packages/remit-agent && ../../.venv/bin/deptry src
	cd packages/remit-fleet && ../../.venv/bin/deptry src
	.venv/bin/vulture

types: .venv/ready  ## pyright, strict
	.venv/bin/pyright

pictures: .venv/ready  ## draw the pictures of the README and of the console anew, from real runs
	.venv/bin/python docs/pictures.py
	.venv/bin/python docs/console_pictures.py

reference: .venv/ready  ## write docs/reference/ anew, from the code
	.venv/bin/python docs/generate.py

docs: .venv/ready  ## build the documentation into site/; a broken link ends it
	.venv/bin/python docs/generate.py --check
	.venv/bin/zensical build --clean --strict
	@rm -f site/*.py # the scripts that write pages and pictures are no pages

wheel: .venv/ready  ## build dist/*.whl
	$(UV) build --all-packages --wheel --quiet --out-dir dist

ci:  ## everything that must hold, and the wheel in an environment of its own
	bash .ci/run

release: .venv/ready  ## dist/*.whl with the hook client for Linux and macOS, x86-64 and arm64, built in
	REMIT_CLIENTS=1 $(UV) build --all-packages --wheel --quiet --out-dir dist

bench: .venv/ready  ## budgets, as ratios measured in one run
	.venv/bin/python benchmarks/hook.py
	.venv/bin/python -m benchmarks.large

everyday: .venv/ready  ## everyday commands with and without Remit, into docs/explanation/everyday-commands.md; minutes
	TMPDIR=$${TMPDIR:-/dev/shm} .venv/bin/python benchmarks/everyday.py --write docs/explanation/everyday-commands.md

bench-provenance: .venv/ready  ## who wrote a line, where that is known by construction; REPO="PATH PATH" WORDS="--runs 3"
	.venv/bin/python -m benchmarks.provenance $(foreach path,$(REPO),--repo $(path)) $(WORDS)

clean:  ## remove what the other targets made
	rm -rf .venv dist site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
