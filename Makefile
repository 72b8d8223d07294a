# Each target works from a fresh clone with nothing before it: it makes $(VENV) from a
# Python 3.11, 3.12 or 3.13 on this machine, installs the pins, and does its work.

# May be given on the command line:
#   PYTHON=python3.13       the interpreter to make the environment with
#   VENV=.venv313           the environment, to keep one for each Python
#   DEMO_ARGS=...           more flags for the demonstration
#   REPRODUCE_ARGS=...      more flags for the paper's tables; later ones win
#   PYTEST_ARGS='-k layers' more flags for pytest
#   BENCH_ARGS=...          more flags for a benchmark
#   FAULTS_ARGS=--short     more flags for the fault suite
VENV = .venv
PYTHON ?=
DEMO_ARGS =
REPRODUCE_ARGS =
PYTEST_ARGS =
BENCH_ARGS =
FAULTS_ARGS =

# TensorFlow's lines about CPU features and missing CUDA, some of them called errors,
# hide what matters. Anyone who wants them exports another level.
export TF_CPP_MIN_LOG_LEVEL ?= 3

PRODUCT = PYTHON='$(PYTHON)' .ci/make_venv $(VENV) requirements.txt
DEVELOPMENT = $(PRODUCT) requirements-dev.txt
RUN = $(VENV)/bin/python
SOURCES = albert_tf data_prep configs

.DEFAULT_GOAL := help
# Two installations into one environment at a time would spoil it.
.NOTPARALLEL:

.PHONY: help
help: ## list these targets
	@echo 'Targets (each needs nothing before it):'
	@sed -n 's/^\([a-z][a-z-]*%*\):.*## \(.*\)/  make \1 | \2/p' Makefile \
	  | sed 's/%/NAME/' | awk -F ' [|] ' '{printf "%-19s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## run the whole way on a small scale; results and report in build/demo
	@$(PRODUCT)
	$(RUN) -m albert_tf.demo --output_dir=build/demo $(DEMO_ARGS)

.PHONY: reproduce
reproduce: ## train an ablation of the paper at the smallest size
	@$(PRODUCT)
	$(RUN) -m albert_tf.reproduce --table=pair_loss --output_dir=build/reproduction \
	  $(REPRODUCE_ARGS)

.PHONY: test
test: ## run all tests, the slow ones too
	@$(DEVELOPMENT)
	$(RUN) -m tests.run_rooms $(PYTEST_ARGS)

.PHONY: test-faults
test-faults: ## kill, damage, fill disks: count what follows; resumes
	@$(DEVELOPMENT)
	$(RUN) -m tests.faults.run --results=docs/reliability/faults.json $(FAULTS_ARGS)

.PHONY: golden-margins
golden-margins: ## print how near the original's numbers come to their limits
	@$(DEVELOPMENT)
	$(RUN) -m tests.support.golden_margins

# PyTorch does not fit beside TensorFlow, so transformers and JAX have an environment of
# their own, whose requirements pin all by themselves: constraints.txt is not theirs.
INTEROP = build/interop
.PHONY: test-interop
test-interop: ## run the tests that need transformers on PyTorch, or JAX
	@mkdir -p $(INTEROP)
	@cp requirements-bench-torch.txt requirements-jax.txt requirements-interop.txt \
	  $(INTEROP)
	@: > $(INTEROP)/constraints.txt
	@cd $(INTEROP) && PYTHON='$(PYTHON)' $(CURDIR)/.ci/make_venv venv \
	  requirements-interop.txt
	@$(PRODUCT)
	ALBERT_TF_PYTHON=$(abspath $(RUN)) $(INTEROP)/venv/bin/python -m pytest \
	  tests/interop $(PYTEST_ARGS)

.PHONY: check
check: ## format, lint, types, imports, Dockerfiles and the BUILD files
	@$(DEVELOPMENT)
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy $(SOURCES)
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/hadolint --no-color docker/*.Dockerfile
	$(RUN) -m pytest tests/repository/test_layout.py

.PHONY: format
format: ## format, and fix what the linter can
	@$(DEVELOPMENT)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

# Its packages are few, and TensorFlow is not among them: an environment of its own.
DOCS = build/docs
.PHONY: docs
docs: ## build the documentation as a site in build/site
	@mkdir -p $(DOCS)
	@PYTHON='$(PYTHON)' .ci/make_venv $(DOCS)/venv requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 $(DOCS)/venv/bin/python -m mkdocs build --strict --quiet
	$(DOCS)/venv/bin/python -m tests.repository.site_assets build/site
	@echo 'Open build/site/index.html; its search needs a server, such as'
	@echo '  python3 -m http.server --bind=127.0.0.1 --directory=build/site'

.PHONY: reference
reference: ## write docs/reference from flags, settings and docstrings
	@$(PRODUCT)
	$(RUN) -m tests.repository.reference

# The program that resolves requirements has an environment of its own.
UV = uv==0.13.9
.PHONY: locks
locks: ## write .ci/locks, with hashes, from the requirements and the index
	@$(PRODUCT)
	@test -x build/locks/bin/uv || { $(RUN) -m venv build/locks && \
	  build/locks/bin/python -m pip install -q $(UV); }
	$(RUN) -m tests.repository.locks build/locks/bin/uv

.PHONY: licences
licences: ## list the licences of all packages that are pulled in
	@$(DEVELOPMENT)
	$(RUN) -m tests.repository.licences

.PHONY: build-file
build-file: ## write the BUILD files from the files' imports
	@$(PRODUCT)
	$(RUN) -m tests.repository.build_file

# One benchmark is one module bench_NAME.py of a package, called as `make bench-NAME`.
BENCHMARK = $(or $(wildcard $(SOURCES:=/bench_$*.py)), \
  $(error no benchmark $*; there are $(wildcard $(SOURCES:=/bench_*.py))))
# With OpenVINO, as .ci/locks has it.
bench-serve: BENCH_REQUIREMENTS = requirements-dev.txt
bench-%: ## run the benchmark bench_NAME.py
	@$(PRODUCT) $(BENCH_REQUIREMENTS)
	$(RUN) -m $(subst /,.,$(basename $(BENCHMARK))) $(BENCH_ARGS)

.PHONY: clean
clean: ## remove what was built, and the caches; the environment stays
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find $(SOURCES) tests -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: clean-venv
clean-venv: ## remove the environment
	rm -rf $(VENV) $(VENV).unfinished
