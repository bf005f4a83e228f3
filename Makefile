# Needs make and Python 3.11 or newer; everything else goes into $(VENV).
# One virtual environment, two stamps: `run` needs the locked packages of the service, `dev` adds the tools.
# A stamp is redone only when the lock or pyproject.toml changes.

.DEFAULT_GOAL := help
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?=
VENV ?= .venv
ARGS ?=
JOBS ?= 4
# Some images set it. Each process of the tests would compile all modules again, which takes twice as long as the rest of
# its collection.
unexport PYTHONDONTWRITEBYTECODE
# File by file, in the order of collection: xdist's own order begins with the most tests, and the few that take
# long would come last.
SPREAD = -n $(JOBS) --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip -qq --disable-pip-version-check --no-input
INSTALL_SELF := $(PIP) install --no-deps --no-build-isolation -e .

.PHONY: help
help: ## list the targets
	@echo "make TARGET   (ARGS='...' is passed on to run, test, storm, spec and bench)"
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-13s %s\n", $$1, $$2}'

.PHONY: run
run: $(VENV)/.run.stamp ## everything on this machine, with a demo account: http://127.0.0.1:8000
	@exec $(BIN)/meetcore dev $(ARGS)

.PHONY: test
# The end-to-end tests come by themselves: the pools that the others keep for a whole run, beside the processes of
# these, would be more connections than a server has.
test: $(VENV)/$(if $(strip $(ARGS)),.dev,.tests).stamp ## the tests; ARGS='tests/unit -x' to choose
ifeq ($(strip $(ARGS)),)
	@$(PY) -m pytest -q $(SPREAD) --ignore tests/e2e; first=$$?; \
	  $(PY) -m pytest -q $(SPREAD) tests/e2e && exit $$first
else
	@$(PY) -m pytest -q $(SPREAD) $(ARGS)
endif

.PHONY: storm
storm: $(VENV)/.dev.stamp ## 500 kills of the API and as many of workers, at every step and at random, and 1 000 payments; ARGS=-s prints the figures
	@MEETCORE_TEST_KILLS=$${MEETCORE_TEST_KILLS:-500} $(PY) -m pytest -q $(SPREAD) tests/e2e/test_meeting_steps.py tests/e2e/test_meeting_storm.py tests/e2e/test_note_steps.py tests/e2e/test_note_storm.py tests/e2e/test_note_crowd.py tests/e2e/test_long_recording.py tests/e2e/test_payment_steps.py tests/e2e/test_payment_storm.py $(ARGS)

.PHONY: simulate
simulate: $(VENV)/.dev.stamp ## simulated processes with faults by seeds, over the real SQL; ARGS='--seeds 1000 --jobs 2', --plants to see it fail
	@$(PY) -m tests.simulation $(ARGS)

.PHONY: cover
cover: export COVERAGE_FILE := $(VENV)/coverage
cover: $(VENV)/.dev.stamp ## every line and branch of the domain is run by its own tests
	@$(BIN)/coverage erase  # of a module that was renamed there is no source
	@HYPOTHESIS_PROFILE=cover $(BIN)/coverage run -m pytest -q -p no:xdist -k 'not hostile_file_takes_time' tests/unit/domain > $(VENV)/cover.log 2>&1 || { cat $(VENV)/cover.log >&2; exit 1; }
	@$(BIN)/coverage report --include='src/meetcore/domain/*' --fail-under=100 > $(VENV)/cover.log 2>&1 || { cat $(VENV)/cover.log >&2; exit 1; }

.PHONY: mutate
mutate: $(VENV)/.dev.stamp ## mutation testing of the domain; ARGS="'meetcore.domain.money.ledger*'" to choose
	@$(PY) scripts/mutate.py $(ARGS)

# What only computes takes what the tests leave of the processors: they also measure and wait.
.PHONY: check
check: lint ## everything a change has to pass
	@$(MAKE) -j2 lowered test
	@echo "check: all good"

.PHONY: lint
lint: $(VENV)/.dev.stamp ## ruff: rules and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "lint: run 'make format'" >&2; exit 1; }

.PHONY: format
format: $(VENV)/.dev.stamp ## format the code
	@$(BIN)/ruff check --quiet --fix-only --select I .
	@$(BIN)/ruff format --quiet .

.PHONY: lowered
lowered: $(VENV)/.dev.stamp
	@nice -n 19 $(MAKE) static

# A generated page (state diagrams, the OpenAPI document, the settings table) has a script that writes it;
# with --check the script writes nothing and exits 1 where the page no longer says what the code says.
.PHONY: static
static: $(VENV)/.dev.stamp ## mypy (strict), import-linter (imports run one way), and generated pages say what the code says
	@$(BIN)/mypy --no-error-summary src tests examples benchmarks
	@$(BIN)/lint-imports --no-logo > $(VENV)/layers.log 2>&1 || { cat $(VENV)/layers.log >&2; exit 1; }
	@for script in scripts/check_*.py; do $(PY) "$$script" --check || exit 1; done

# Not part of `check`, which needs Python alone: these linters are of npm and Debian, and left out where they are not there.
.PHONY: linters
linters: $(VENV)/.dev.stamp ## linters of others for the OpenAPI document, the agent interface, deploy/ and types; ARGS=api to choose
	@$(PY) scripts/lint.py $(or $(ARGS),api mcp deploy types)

# Not part of `check` either: it needs Node.js and packages of npm, and says so where they are not there.
.PHONY: typescript
typescript: $(VENV)/.dev.stamp ## the TypeScript client: its types, and its tests, a part of them against a running service; ARGS=build only makes the package
	@$(PY) scripts/typescript.py $(ARGS)

# Not part of `check`, which needs one Python.
.PHONY: pythons
pythons: $(VENV)/.dev.stamp ## a part of the tests on the other versions of Python that are here; ARGS=3.13 to choose
	@$(PY) scripts/other_pythons.py $(ARGS)

# Not part of `check`: it builds packages, and an image where root runs it on a machine with buildah and mmdebstrap.
.PHONY: packages
packages: $(VENV)/.dev.stamp ## a part of the tests against the wheels, the units and the image; ARGS=wheel to choose
	@$(PY) scripts/try_packages.py $(ARGS)

.PHONY: sbom
sbom: $(VENV)/.dev.stamp ## build/sbom.cdx.json and build/licences.md of the image's packages; fails for a licence that is not allowed
	@$(PY) -m uv --quiet venv --clear build/image-packages
	@$(PY) -m uv --quiet pip sync --python build/image-packages --require-hashes requirements/image.txt
	@$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml -o build/sbom.cdx.json build/image-packages/bin/python
	@$(BIN)/pip-licenses --python build/image-packages/bin/python --output-file build/licences.md

# Not part of `check`: PyPI is asked for each package. Where it knows one of them not, or does not answer, that is a
# failure, too: nothing is known then.
.PHONY: audit
audit: $(VENV)/.dev.stamp ## known vulnerabilities of the locked packages, by PyPI
	@$(PY) -m uv --quiet tool run pip-audit==2.10.1 --strict --disable-pip --require-hashes --progress-spinner off -r requirements/run.txt \
	  || { echo "audit: a package is vulnerable, or could not be looked up; the line above says which" >&2; exit 1; }

.PHONY: picture
picture: $(VENV)/.dev.stamp ## the picture of the README, by Chromium
	@$(PY) scripts/picture.py

# Needs one of three builders, and an image of Python that it can reach.
.PHONY: image
image: ## the container image `meetcore`, by buildah, podman or docker; ARGS='--secret id=pip,src=pip.conf'
	@for builder in buildah podman docker; do \
	  if command -v $$builder >/dev/null; then \
	    case $$builder in docker) format= ;; *) format='--format docker' ;; esac; \
	    exec $$builder build $$format -f deploy/Containerfile -t meetcore $(ARGS) .; \
	  fi; \
	done; echo "image: none of buildah, podman and docker is installed" >&2; exit 1

.PHONY: fuzz
fuzz: $(VENV)/.dev.stamp ## generated requests to every operation; ARGS='--cases 500 --seed 7' to choose
	@$(PY) -m tests.fuzz $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev.stamp ## the benchmarks; ARGS=--smoke to see that they work, --growth, --pages, --neighbours or --peers for the longer forms
	@$(PY) -m benchmarks $(ARGS)

# Two runs, as for `test`, and one table: the second tells what came of both.
.PHONY: spec
spec: SPEC = $(PY) -m pytest -q $(SPREAD) -m spec
spec: $(VENV)/.dev.stamp ## the tests that carry out the spec, and the table of rules against tests
ifeq ($(strip $(ARGS)),)
	@rm -f $(VENV)/spec.json
	@$(SPEC) --ignore tests/e2e --spec-keep $(VENV)/spec.json; first=$$?; \
	  $(SPEC) tests/e2e --spec-run --spec-with $(VENV)/spec.json && exit $$first
else
	@$(SPEC) --spec-run $(ARGS)
endif

UV_COMPILE = env -u PIP_FIND_LINKS -u UV_FIND_LINKS -u UV_INDEX -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL \
  $(PY) -m uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)

SERVICE = server notes redis rabbitmq mcp web payments metrics traces

.PHONY: lock
lock: $(VENV)/.venv.stamp ## resolve the packages anew into requirements/; ARGS='--upgrade' for newer ones
	@$(PY) -c 'import uv' 2>/dev/null || $(PIP) install uv
	@$(UV_COMPILE) $(SERVICE:%=--extra %) --extra embedded --group build pyproject.toml -o requirements/run.txt
	@$(UV_COMPILE) --extra all --extra testing --group dev -c requirements/run.txt pyproject.toml -o requirements/dev.txt
	@$(UV_COMPILE) $(SERVICE:%=--extra %) -c requirements/run.txt pyproject.toml -o requirements/image.txt
	@$(UV_COMPILE) -c requirements/run.txt --group build -o requirements/build.txt
	@! grep -nE '^-|://|file:|(^|[^a-z])/[a-z]' requirements/*.txt \
	  || { echo "lock: an address or a path got into the lock" >&2; exit 1; }
	@echo "lock: the files of requirements/ are up to date"

.PHONY: clean
clean: ## remove what make and the tools made; data of 'make run' stays
	@rm -rf $(VENV) build dist .coverage .coverage.* htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The first of these that is Python 3.11 or newer: a name that resolves to a shim without a Python behind it is passed over.
$(VENV)/.venv.stamp:
	@found=; \
	for python in $(PYTHON) python3.13 python3.12 python3.11 python3 python3.14; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "make: no Python 3.11 or newer found. Install one, or say which: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; \
	fi; \
	if ! "$$found" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	  echo "make: $$found has no venv or ensurepip. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "Setting up $(VENV) (once) with $$("$$found" --version)" >&2; \
	rm -rf "$(VENV)" && "$$found" -m venv "$(VENV)" || { rm -rf "$(VENV)"; exit 1; }
	@touch $@

# What pip does goes into a log, of which the last step is shown every four seconds.
$(VENV)/.run.stamp: LOG = $(VENV)/install.log
$(VENV)/.run.stamp: $(VENV)/.venv.stamp requirements/run.txt pyproject.toml
	@echo "Installing the locked packages of the service" >&2
	@: > $(LOG); while sleep 4 && kill -0 $$$$ 2>/dev/null; do \
	    if grep -q '^Installing ' $(LOG); then \
	      set -- $(VENV)/lib/python*/site-packages/*.dist-info; echo "Installing: $$# packages are there"; \
	    else grep -E '^ *(Collecting|Downloading) ' $(LOG) | tail -n 1 | cut -c 1-72; fi >&2; done & showing=$$!; \
	  $(PY) -m pip --disable-pip-version-check --no-input install --progress-bar off --require-hashes \
	    -r requirements/run.txt > $(LOG) 2>&1; status=$$?; \
	  kill $$showing; [ $$status = 0 ] || { cat $(LOG) >&2; exit $$status; }
	@$(INSTALL_SELF)
	@touch $@

# A superset of run: its packages are pinned to the same versions. uv takes a fifth of pip's time; pip takes over where
# uv does not know the index that pip is configured with.
$(VENV)/.dev.stamp: $(VENV)/.venv.stamp requirements/dev.txt pyproject.toml
	@echo "Installing the locked packages for development" >&2
	@sed -n '/^uv==/,/^    # via/p' requirements/dev.txt > $(VENV)/uv.txt
	@$(PIP) install --require-hashes -r $(VENV)/uv.txt
	@$(PY) -m uv pip install --quiet --python $(PY) --require-hashes -r requirements/dev.txt \
	  || $(PIP) install --require-hashes -r requirements/dev.txt
	@$(INSTALL_SELF)
	@touch $(VENV)/.run.stamp $@

# Compiles tests and packages once: else each process of the first run does, 20 CPU seconds each.
$(VENV)/.tests.stamp: $(VENV)/.dev.stamp
	@echo "Compiling the tests (once)"
	@$(PY) -m pytest -q -n 0 --collect-only > $(VENV)/tests.log || { cat $(VENV)/tests.log >&2; exit 1; }
	@touch $@
