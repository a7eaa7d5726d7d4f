# `make demo` and `make test` prepare everything they need on a machine that has Python 3.11 or later, git and make.
# Another Python: `make PYTHON=/usr/local/bin/python3.13 test`. Another folder for it: `make VENV=/tmp/venv test`.

SHELL := /bin/sh
VENV := .venv
RUN := $(VENV)/bin/python
PYTHON :=
JOBS := 2
DEMO_ARGS :=
PYTEST_ARGS :=
FAULTS_ARGS :=
BENCH_ARGS :=

.PHONY: help demo setup dev test lint types unit wheel wheel-test faults fuzz bench clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null || grep '##' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## run the sample board against a practice model, without a key
	@$(VENV)/bin/taskyard demo $(DEMO_ARGS)

test: lint types unit wheel-test ## everything that must hold before a change is handed in

setup: $(VENV)/.runtime ## make the virtual environment with what taskyard needs to run

dev: $(VENV)/.dev ## and with what its developers need

# Each candidate is really started: a name on PATH may be a shim of a version manager that leads nowhere.
$(VENV)/.made:
	@chosen=; bare=; \
	for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	  if "$$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then chosen=$$candidate; break; fi; \
	  bare=$$candidate; \
	done; \
	if [ -z "$$chosen" ] && [ -n "$$bare" ]; then \
	  echo "make: error: $$bare can't make virtual environments: install its venv module (Debian: apt-get install python3-venv)" >&2; exit 2; \
	elif [ -z "$$chosen" ]; then \
	  echo "make: error: no Python 3.11 or later was found: install one, or name it with make PYTHON=/path/to/python3" >&2; exit 2; \
	fi; \
	command -v git >/dev/null 2>&1 || { echo "make: error: git was not found: install git 2.38 or later" >&2; exit 2; }; \
	"$$chosen" -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made pyproject.toml constraints.txt
	$(RUN) -m pip install --quiet -e . -c constraints.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(RUN) -m pip install --quiet -e '.[dev]' -c constraints.txt
	@touch $@

lint: $(VENV)/.dev ## style, and which room may import which
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(VENV)/bin/lint-imports --no-cache

# The folders install as taskyard.*; mypy reads sources, so they are linked under that name first.
types: $(VENV)/.dev ## mypy --strict
	@mkdir -p build/types/taskyard
	@for folder in services tui styles; do ln -sfn "../../../$$folder" "build/types/taskyard/$$folder"; done
	$(RUN) -m mypy -p taskyard.services -p taskyard.tui

# A file's tests share fixtures that cost seconds (a repository, an installed wheel): loadfile keeps a file on one worker.
unit: $(VENV)/.dev ## the tests, but for the slow ones
	$(RUN) -m pytest tests -m "not slow" -n $(JOBS) --dist loadfile --ignore=tests/faults --ignore=tests/services/test_install_wheel.py $(PYTEST_ARGS)

wheel: $(VENV)/.dev ## dist/taskyard-*.whl
	rm -rf build/lib build/bdist.*
	$(RUN) -m build --no-isolation --wheel --outdir dist .

wheel-test: $(VENV)/.dev ## build the wheel, install it into an empty environment and test that
	$(RUN) -m pytest tests/services/test_install_wheel.py $(PYTEST_ARGS)

faults: $(VENV)/.dev ## kill the program at named points and at random, and look what is left
	$(RUN) -m pytest tests/faults -n $(JOBS) $(FAULTS_ARGS)

fuzz: $(VENV)/.dev ## the property tests with many more examples
	$(RUN) -m pytest tests/unit -n $(JOBS) --hypothesis-profile=fuzz $(PYTEST_ARGS)

bench: $(VENV)/.dev ## the benchmarks, each on its own; BENCH_ARGS=--smoke for a quick look
	@for script in benchmarks/*.py; do echo "== $$script"; $(RUN) "$$script" $(BENCH_ARGS) || exit 1; done

clean: ## remove what the other commands made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
