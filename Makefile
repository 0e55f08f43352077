# One command each; docs/how-to/develop.md tells more.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(if $(shell command -v $(p) 2>/dev/null),$(p),)))
PORT ?= 8000
DATA ?= ./data
HOST ?= 127.0.0.1
DEMO ?= auto

export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE # containers set it: then each of the hundreds of servers and agents that tests start compiles all code anew
# Six, for most of a test's time is waiting for real processes; in the order of tests/conftest.py.
PYTEST = .venv/bin/pytest -n 6 --dist loadfile --no-loadscope-reorder
PIP = .venv/bin/python -m pip install --quiet --require-hashes --only-binary=:all:

.PHONY: help venv up test test-all test-long lint bench agent requirements messages packages clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

venv: .venv/.base ## make .venv with what Fettle runs on

.venv/.base: requirements/base.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fettle: $(PYTHON) is too old or missing; install Python 3.11 or newer, or name it with PYTHON=…" >&2; exit 1; }
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv || { echo "fettle: Python cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PIP) -r requirements/base.txt
	.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.base
	$(PIP) -r requirements/dev.txt
	@touch $@

up: venv ## start Fettle on http://127.0.0.1:$(PORT)
	@exec .venv/bin/python manage.py up --port "$(PORT)" --data "$(DATA)" --host "$(HOST)" --demo "$(DEMO)"

agent: venv ## build the agent as one file, dist/fettle-agent.pyz, for this server to give to nodes
	.venv/bin/python deploy/agent/build.py

packages: # Debian's packages that the tests need
	@sh tests/install-packages.sh

test: .venv/.dev packages ## the tests, 10 minutes on two cores
	$(PYTEST) -m "not slow" $(ARGS)

test-all: .venv/.dev packages ## the slow tests too
	$(PYTEST) -m "not long" $(ARGS)

test-long: .venv/.dev packages ## those that wait for minutes, 25 minutes in all; on a quiet machine, for their waits are bounded
	$(PYTEST) -m long $(ARGS)

lint: .venv/.dev ## what CI checks beside the tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	FETTLE_DEBUG=1 .venv/bin/mypy
	FETTLE_DEBUG=1 .venv/bin/mypy --python-version 3.10 wire agents # nodes have older Pythons than servers
	.venv/bin/lint-imports
	.venv/bin/typos
	git ls-files "*.html" | xargs .venv/bin/djade --check --target-version 5.2
	git ls-files "*.py" | xargs .venv/bin/django-upgrade --target-version 5.2
	FETTLE_DEBUG=1 .venv/bin/python manage.py makemigrations --check --dry-run
	FETTLE_DEBUG=1 .venv/bin/python manage.py check

bench: venv ## the benchmarks that need no GPU
	.venv/bin/python bench/advise.py
	.venv/bin/python bench/store.py
	.venv/bin/python bench/ingest.py --gpus 800 --seconds 60

requirements: .venv/.dev ## pin requirements/*.in anew (needs uv)
	for f in base dev; do uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --quiet requirements/$$f.in --output-file requirements/$$f.txt; done
	uv pip compile --universal --python-version 3.10 --generate-hashes --no-header --no-emit-index-url --quiet requirements/agent.in --output-file requirements/agent.txt

messages: ## collect and compile the interface's texts (needs Debian's gettext)
	FETTLE_DEBUG=1 .venv/bin/python manage.py makemessages --locale zh_Hans --no-location --ignore .venv
	FETTLE_DEBUG=1 .venv/bin/python manage.py compilemessages --locale zh_Hans

clean: ## remove what the tools left; DATA stays
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis staticfiles
