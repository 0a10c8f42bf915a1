# parachuted: `make run` starts it, `make test` tests it; both need python3 >= 3.11 and nothing else.
#   make run [VAULT=~/Notes] [PORT=3333]     make bench      figures, as a table and JSON
#   make test [ARGS="tests/vault -x"]        make torture    the crash and property tests at full size
#   make lint                                make coverage   the tests, and which branches those of the inner rooms take
#   make wheel      dist/parachuted-*.whl     make mutations  breaks what matters; the tests must notice
#   make docs       the site, in build/docs  make agentic    a model walks through the API; needs a login
#   make clean                               make screenshots  pictures of the web page, in build/screenshots
# Written for GNU make 3.81, which macOS has.

BIN := .venv/bin
.PHONY: run test coverage lint docs bench agentic mutations torture wheel screenshots clean FORCE
.DEFAULT_GOAL := run

# The environment is made again where pyproject.toml changed, the folder was moved, or its Python is gone.
ifneq ($(shell test -x $(BIN)/python && cat .venv/made-at 2>/dev/null),$(CURDIR))
.venv/made-at: FORCE
endif

run: .venv/installed
	@set -- start --foreground --make-default; \
	 [ -z "$$VAULT" ] || set -- "$$@" --vault "$$VAULT"; \
	 [ -z "$$PORT" ] || set -- "$$@" --port "$$PORT"; \
	 exec $(BIN)/parachute "$$@"

IN_PARALLEL := --numprocesses=auto --dist=loadfile --no-loadscope-reorder
ifndef COVERAGE
test: .venv/installed-test
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(or $(ARGS),$(IN_PARALLEL))
else
# The same tests: those of the rooms that work in one process are measured meanwhile, and are to reach every branch of their room.
test: .venv/installed-test
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m tests.room_coverage
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -p tests.room_coverage $(or $(ARGS),$(IN_PARALLEL))
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report
endif

coverage:
	@$(MAKE) test COVERAGE=1

lint: .venv/installed-test
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

docs: .venv/installed-test
	@$(BIN)/python docs/generate.py && $(BIN)/python -m mkdocs build --clean && ls build/docs/index.html

bench: .venv/installed-test
	@$(BIN)/python -m benchmarks $(ARGS)

agentic: .venv/installed-test
	@$(BIN)/python -m tests.agentic

mutations: .venv/installed-test
	@$(BIN)/python -m tests.mutations $(ARGS)

torture: .venv/installed-test
	@$(BIN)/python -m pytest --torture -m torture $(ARGS)

wheel: .venv/installed-test
	@$(BIN)/python -m build --no-isolation --wheel --outdir dist >/dev/null && ls dist/*.whl

screenshots: .venv/installed-test
	@$(BIN)/python -m tests.web.screenshots

clean:
	rm -rf .venv dist build .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/made-at:
	@for python in python3.14 python3.13 python3.12 python3.11 python3; do \
	   $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; python=; \
	 done; \
	 if [ -z "$$python" ]; then echo "parachuted needs Python 3.11 or newer, and there is none on the PATH: see python.org/downloads." >&2; exit 1; fi; \
	 echo "Making .venv with $$($$python --version) ..."; \
	 rm -rf .venv; \
	 log=$$(mktemp); \
	 if ! $$python -m venv .venv >"$$log" 2>&1; then \
	   cat "$$log" >&2; rm -rf .venv "$$log"; \
	   echo "This Python cannot make a virtual environment. On Debian and Ubuntu: sudo apt install python3-venv. Then run make again." >&2; exit 1; \
	 fi; \
	 rm -f "$$log"; \
	 echo "$(CURDIR)" >$@

.venv/installed: what = -e '.[claude]'
.venv/installed-test: what = -e '.[test]'
.venv/installed .venv/installed-test: .venv/made-at pyproject.toml
	@echo "Installing parachuted and what it needs; the first time takes a minute or two ..."; \
	 if ! $(BIN)/python -m pip install -q --disable-pip-version-check $(what) >.venv/install.log 2>&1; then \
	   cat .venv/install.log >&2; echo "The installation failed; the lines above say why." >&2; exit 1; \
	 fi; \
	 $(BIN)/python -m compileall -q parachuted hooks
	@touch $@
