# `make help` lists what there is. Two commands set everything up on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
# Whatever pip needs to build or run; a change of one of these installs again.
SOURCES := pyproject.toml constraints.txt hatch_build.py $(wildcard web/frontend/*.* web/frontend/src/*.* web/frontend/src/*/*.*)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-searches test-engines trials test-gpu lint format image bench bench-gpu soak install dev system-packages clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is %s" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEV_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(STAMP) ## install Magpie into .venv

dev: $(DEV_STAMP) ## install Magpie and what its tests need into .venv

demo: $(STAMP) ## four street cameras, a teacher and the whole appliance on this machine
	$(BIN)/magpie demo $(ARGS)

system-packages: # a browser for the page's tests and a PostgreSQL for the store's, where we may install them
	@bash .ci/system-packages

# Tests that measure shares have the machine to themselves at the end. Before them two queues run side by side: whole
# appliances, the browser's tests, injected faults, fleets and cameras, which all mostly wait, two at once; and at the
# lowest priority, three at once, all other rooms. Each has one thread, for processes of two threads would get in each
# other's way. One word is one process of pytest (a comma stands between its paths); what takes longest comes first, and
# both queues end at about the same time: what is left of one alone leaves processors idle.
LAST := tests/gpu $(addprefix tests/shares/,test_bucket.py test_cgroup.py test_cpu.py)
ROOMS := runtime web appliance,outputs,store,upkeep scheduler,core,contracts,settings serving students,training,golden,inference \
	commands,access,rules simulation,microprofiler,soak,demo,load,models
WHOLE := e2e browser faults fleet,engines,shares clips,detectors,discovery,ingest,recording,tracking
# Each process of pytest leaves a report (JUnit's XML); the ten slowest tests of all are printed at the end.
REPORTS := .test-reports
comma := ,
paths = $(foreach path,$(subst $(comma), ,$(1)),$(if $(filter shares,$(path)),$(filter-out $(LAST),$(wildcard tests/shares/test_*.py)),tests/$(path)))
# A room that is in no list runs on its own, so that none is forgotten.
ALONE := $(filter-out tests/__pycache__ tests/clusters tests/trials tests/shares $(LAST) $(call paths,$(ROOMS) $(WHOLE)),$(patsubst %/,%,$(wildcard tests/*/)))

# Compiled modules are kept, also where the environment says otherwise: each test process would compile all of them anew.
test test-searches test-engines trials: export PYTHONDONTWRITEBYTECODE :=

test: $(DEV_STAMP) system-packages ## run the whole test suite (no GPU needed)
ifeq ($(strip $(ARGS)),)
	rm -rf $(REPORTS); failed=0; \
	nice -n 19 $(MAKE) -k -j 3 -O --no-print-directory $(addprefix pytest-in/,$(ROOMS)) & rooms=$$!; \
	trap 'kill $$rooms 2>/dev/null' EXIT; \
	$(MAKE) -k -j 2 -O --no-print-directory $(addprefix pytest-in/,$(WHOLE)) || failed=1; \
	wait $$rooms || failed=1; \
	$(BIN)/python -m pytest --junitxml=$(REPORTS)/last.xml $(ALONE) $(LAST) || failed=1; \
	$(BIN)/python .ci/slowest $(REPORTS); \
	exit $$failed
else
	$(BIN)/python -m pytest $(ARGS)
endif

pytest-in/%: export OMP_NUM_THREADS := 1
pytest-in/%: # the rooms and files of one word of ROOMS and WHOLE
	@$(BIN)/python -m pytest --junitxml=$(REPORTS)/$*.xml $(call paths,$*)

test-all: ## run `make test` with every example, seed and row of its dear searches (tests/examples_kit.py)
	MAGPIE_THOROUGH=1 $(MAKE) test

test-searches: $(DEV_STAMP) ## run the searches of `make test` alone, with every example
	MAGPIE_THOROUGH=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal \
	  $$(grep -rlE '@given|tried\(|THOROUGH|fuzz_kit' tests --include='test_*.py')

test-engines: $(DEV_STAMP) ## run the engine `ray` on a real cluster of Ray, which `make test` leaves out
	$(BIN)/python -m pytest tests/clusters $(ARGS)

trials: $(DEV_STAMP) ## try it with programs of others and on a troubled box (what each needs: CONTRIBUTING.md)
	$(BIN)/python -m pytest tests/trials $(ARGS)

test-gpu: $(DEV_STAMP) ## run the tests that need an NVIDIA GPU
	$(BIN)/python -m pytest tests/gpu -m gpu $(ARGS)

lint: $(DEV_STAMP) ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy edge golden microprofiler scheduler web
	$(BIN)/lint-imports

image: ## build the container image with docker or buildah, start it, and ask whether it lives (BASE_IMAGE, BUILD_ARGS)
	@bash .ci/image --required

format: $(DEV_STAMP) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_STAMP) ## run every benchmark that needs no GPU (about an hour); results in benchmarks/results/
	$(BIN)/python -m benchmarks.run_all $(ARGS)

bench-gpu: $(DEV_STAMP) ## record GPU profiles into benchmarks/results/
	$(BIN)/python -m benchmarks.bench_gpu $(ARGS)
	$(BIN)/python -m benchmarks.bench_serving_gpu

soak: $(DEV_STAMP) system-packages ## run the whole appliance under faults for MINUTES (60) and check what must hold; SEED
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1) $(ARGS)

clean: ## remove what was installed and built (recorded data stays)
	rm -rf $(VENV) $(REPORTS) web/static web/frontend/node_modules .pytest_cache .mypy_cache .ruff_cache
