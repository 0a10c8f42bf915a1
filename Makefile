# parachuted: `make run` starts it, `make test` tests it; both need python3 >= 3.11 and nothing else.
#   make run [VAULT=~/Notes] [PORT=3333]     make bench      figures, as a table and JSON
#   make test [ARGS="tests/vault -x"]        make torture    the crash and property tests at full size
#   make lint                                make coverage   the tests, and which branches those of the inner rooms take
#   make wheel      dist/parachuted-*.whl     make mutations  breaks what matters; the tests must notice
#   make docs       the site, in build/docs  make agentic    a model walks through the API; needs a login
#   make clean                               make screenshots  pictures of the web page, in build/screenshots
#   make lock       the lock files follow pyproject.toml;   make upgrade   they take the newest versions, and the tests run
# PYTHON=python3.13 works with that Python. DEPS=lowest and DEPS=newest test the ends of pyproject.toml's ranges instead of what
# is locked. Each of these has an environment of its own. Written for GNU make 3.81, which macOS has.

VENV := .venv$(addprefix -,$(notdir $(PYTHON)))$(addprefix -,$(DEPS))
BIN := $(VENV)/bin
.PHONY: run test coverage lint lock upgrade docs bench agentic mutations torture wheel screenshots clean FORCE
.DEFAULT_GOAL := run

# The environment is made again where pyproject.toml or a lock changed, the folder was moved, or its Python is gone.
ifneq ($(shell test -x $(BIN)/python && cat $(VENV)/made-at 2>/dev/null),$(CURDIR))
$(VENV)/made-at: FORCE
endif

run: $(VENV)/installed
	@set -- start --foreground --make-default; \
	 [ -z "$$VAULT" ] || set -- "$$@" --vault "$$VAULT"; \
	 [ -z "$$PORT" ] || set -- "$$@" --port "$$PORT"; \
	 exec $(BIN)/parachute "$$@"

IN_PARALLEL := --numprocesses=auto --dist=loadfile --no-loadscope-reorder
ifndef COVERAGE
test: $(VENV)/installed-test
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(or $(ARGS),$(IN_PARALLEL))
else
# The same tests: those of the rooms that work in one process are measured meanwhile, and are to reach every branch of their room.
test: $(VENV)/installed-test
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m tests.room_coverage
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -p tests.room_coverage $(or $(ARGS),$(IN_PARALLEL))
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report
endif

coverage:
	@$(MAKE) test COVERAGE=1

lint: $(VENV)/installed-test
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

docs: $(VENV)/installed-test
	@$(BIN)/python docs/generate.py && $(BIN)/python -m mkdocs build --clean && ls build/docs/index.html

bench: $(VENV)/installed-test
	@$(BIN)/python -m benchmarks $(ARGS)

agentic: $(VENV)/installed-test
	@$(BIN)/python -m tests.agentic

mutations: $(VENV)/installed-test
	@$(BIN)/python -m tests.mutations $(ARGS)

torture: $(VENV)/installed-test
	@$(BIN)/python -m pytest --torture -m torture $(ARGS)

wheel: $(VENV)/installed-test
	@$(BIN)/python -m build --no-isolation --wheel --outdir dist >/dev/null && ls dist/*.whl

screenshots: $(VENV)/installed-test
	@$(BIN)/python -m tests.web.screenshots

# One lock for each environment, for every Python and system at once: what pip installs is what was tested, by its hash.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make upgrade" $(ARGS) pyproject.toml
lock: $(BIN)/uv
	@$(COMPILE) --extra test --output-file requirements-test.lock
	@$(COMPILE) --extra claude --group build --constraint requirements-test.lock --output-file requirements.lock

upgrade:
	@$(MAKE) lock ARGS=--upgrade
	@$(MAKE) test

$(BIN)/uv: $(VENV)/made-at
	@$(BIN)/python -m pip install -q --disable-pip-version-check "$$(sed -n 's/^ *"\(uv[=<>][^"]*\)".*/\1/p' pyproject.toml)"
	@touch $@

clean:
	rm -rf .venv .venv-* dist build .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made-at:
	@for python in $(or $(PYTHON),$(if $(filter lowest,$(DEPS)),python3.11,python3.14 python3.13 python3.12 python3.11) python3); do \
	   $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; python=; \
	 done; \
	 if [ -z "$$python" ]; then echo "parachuted needs Python 3.11 or newer, and there is none$(if $(PYTHON), called $(PYTHON)) on the PATH: see python.org/downloads." >&2; exit 1; fi; \
	 echo "Making $(VENV) with $$($$python --version) ..."; \
	 rm -rf $(VENV); \
	 log=$$(mktemp); \
	 if ! $$python -m venv $(VENV) >"$$log" 2>&1; then \
	   cat "$$log" >&2; rm -rf $(VENV) "$$log"; \
	   echo "This Python cannot make a virtual environment. On Debian and Ubuntu: sudo apt install python3-venv. Then run make again." >&2; exit 1; \
	 fi; \
	 rm -f "$$log"; \
	 echo "$(CURDIR)" >$@

$(VENV)/installed: lock = requirements.lock
$(VENV)/installed-test: lock = requirements-test.lock
ifeq ($(DEPS),lowest)
$(VENV)/installed-test: $(BIN)/uv
  install = $(BIN)/uv pip install -q --python $(BIN)/python --resolution lowest-direct -e '.[test]'
else ifeq ($(DEPS),newest)
  install = $(PIP) --upgrade -e '.[test]'
else ifeq ($(DEPS),)
  install = $(PIP) --require-hashes -r $(lock) && $(PIP) --no-deps --no-build-isolation -e .
else
  $(error DEPS is lowest or newest, not $(DEPS))
endif
PIP = $(BIN)/python -m pip install -q --disable-pip-version-check
$(VENV)/installed $(VENV)/installed-test: $(VENV)/made-at pyproject.toml requirements.lock requirements-test.lock
	@echo "Installing parachuted and what it needs; the first time takes a minute or two ..."; \
	 if ! { $(install); } >$(VENV)/install.log 2>&1; then \
	   cat $(VENV)/install.log >&2; echo "The installation failed; the lines above say why." >&2; exit 1; \
	 fi; \
	 $(BIN)/python -m compileall -q parachuted hooks
	@touch $@
