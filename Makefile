# One verb per act; CI uses the same ones. `make` alone lists them.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements.lock
STAMP := $(VENV)/.installed

# The first interpreter that is new enough, tried rather than guessed: a name on PATH may be a shim without a Python behind it.
FIND_PYTHON = for p in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1 && { echo "$$p"; break; }; done

.DEFAULT_GOAL := help
.PHONY: help install demo test tests explore coverage e2e testbed testbed-down lint wheel flink-plugin dev doctor benchmarks mutations storm zoo lock clean

help: ## list the verbs
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): $(LOCK) pyproject.toml
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then echo "perdix needs Python 3.11, 3.12 or 3.13 with venv (Debian: apt-get install python3 python3-venv)" >&2; exit 1; fi; \
	test -x $(BIN)/python || "$$python" -m venv $(VENV)
	@echo "installing the locked dependencies (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

install: $(STAMP) ## create .venv with the locked dependencies

demo: install ## the whole line on the embedded default: exports -> champions -> decisions -> report
	@$(BIN)/perdix demo

test: install ## every check and test (CI runs this)
	@# Side by side: of two cores one would idle while the types are checked.
	@$(MAKE) --no-print-directory --jobs 2 lint tests || { echo "make test: lint or a test failed: see the first *** above" >&2; exit 1; }

tests: install
	@# A process per core: numerical libraries must not start one thread per core in each of them.
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

explore: install ## the property tests on examples that nobody has tried (each run has its own)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --hypothesis-profile explore --numprocesses auto --maxprocesses 4 --dist loadfile -m hypothesis

coverage: install ## every test, and which lines none of them reaches (twice as long)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --cov --cov-report=term

e2e: install ## the browser, the tests in Java, and faults on a real Flink, Kafka, Prometheus and Kubernetes (more than an hour; needs what testbed/README.md names)
	$(BIN)/python -m pytest -m e2e tests/e2e
	$(BIN)/python -m pytest -m e2e --ignore tests/e2e

testbed: install ## start a real Flink, Kafka and Prometheus on loopback, with a job to scale (testbed/README.md)
	@$(BIN)/python -m testbed up

testbed-down: ## end what testbed started, and only that
	@$(BIN)/python -m testbed down

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/dagster definitions validate -w workspace.yaml

wheel: install ## everything as one wheel in dist/, for `pip install` elsewhere
	@rm -rf build
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

flink-plugin: ## the plugin by which Flink's own autoscaler asks perdix, as a jar (needs Maven and a JDK)
	@mvn -q -B -f deploy/flink-autoscaler/pom.xml package
	@echo deploy/flink-autoscaler/target/perdix-flink-autoscaler.jar

dev: install ## Dagster UI + daemon, MLflow UI and a living twin on loopback; Ctrl-C ends all
	@$(BIN)/perdix dev

doctor: install ## check Java, Spark, stores and Prometheus
	@$(BIN)/perdix doctor

benchmarks: install ## print the tables behind docs/results.md
	@for b in ingest validation capacity capacity_on_twins forecast twin tick state calibration clairvoyant replay dataflow ds2_curve sampling performance mixes hosts billing; do echo "== $$b"; $(BIN)/python -m benchmarks.$$b || exit 1; done

mutations: COUNT ?= 10000
mutations: SEED ?= 1
mutations: install ## read damaged exports of every format, and print each traceback: COUNT=10000 SEED=1
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.mutations --count $(COUNT) --seed $(SEED)

storm: SEED ?= 7
storm: STEPS ?= 20000
storm: JSON ?= storm.json
storm: install ## the loop on a simulated clock, network, disk and world, with faults: SEED=7 STEPS=20000 JSON=storm.json
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.storm --seed $(SEED) --steps $(STEPS) --json $(JSON)

zoo: SEED ?= 11
zoo: JOBS ?= 40
zoo: JSON ?= zoo.json
zoo: install ## jobs that nobody tuned to, under every policy: SEED=11 JOBS=40 JSON=zoo.json; goes on where it was broken off
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.zoo --seed $(SEED) --jobs $(JOBS) --json $(JSON) \
		$(if $(HOURS),--hours $(HOURS)) $(if $(REGIME),--regime $(REGIME)) $(if $(POLICY),--policy $(POLICY)) $(if $(FOLDER),--folder $(FOLDER))

UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url --no-annotate --generate-hashes

lock: install ## resolve requirements.lock anew from the bounds of pyproject.toml, and the controller's from it
	@$(BIN)/python -m pip install --quiet uv
	@$(UV_COMPILE) --upgrade pyproject.toml --group dev --output-file $(LOCK)
	@$(UV_COMPILE) deploy/controller/requirements.in --constraint $(LOCK) --output-file deploy/controller/requirements.lock

clean: ## remove the environment and caches (PERDIX_HOME is kept)
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
