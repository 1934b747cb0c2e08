# Needs Python 3.10 or newer and make, nothing else; everything is installed into VENV.
#   make PYTHON=python3.12 …   chooses the interpreter (of a new environment)
#   make VENV=/tmp/env …       chooses the environment
#   make test ARGS='-k scan'   hands arguments to pytest

VENV ?= .venv
PYTHON ?=
ARGS ?=

# On all cores; a file's tests stay together, since they share what they have read. In the files' own order: by the number
# of their tests, as pytest-xdist would have it, those with few and long ones come last, and one core waits for them.
PARALLEL := --numprocesses auto --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.10)
SCAN := src/gpuwhy/sources/scan
WHATIF := src/gpuwhy/whatif
NOT_COMPILED := note: scan.c was not compiled (no C compiler?), so profiles are read by the slower Python scanner
TORCH_TESTS := tests/test_flops.py tests/test_measure.py tests/test_ceilings.py tests/test_record.py tests/test_run_programs.py
# The install is editable: a change of any other file is there at once.
INSTALLS := pyproject.toml hatch_build.py $(wildcard $(SCAN)/*.c $(SCAN)/*.h $(WHATIF)/*.c)

.DEFAULT_GOAL := help
.PHONY: help demo test test-torch check lint format format-check types docs install clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed ## install gpuwhy and explain the profile that comes with it
	@$(BIN)/gpuwhy demo

test: $(VENV)/.installed-test ## run all tests
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-torch: $(VENV)/.installed-torch ## install the one torch that some tests are held against, and run those
	$(BIN)/python -m pytest --numprocesses auto $(TORCH_TESTS) $(ARGS)

check: lint format-check types test ## all that CI runs on the code: lint, format, types, tests

lint: $(VENV)/.installed-test ## ruff's rules
	$(BIN)/ruff check

format: $(VENV)/.installed-test ## rewrite the code in ruff's format, with imports sorted
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

format-check: $(VENV)/.installed-test ## is the code in ruff's format?
	$(BIN)/ruff format --check

types: $(VENV)/.installed-test ## mypy, strict
	$(BIN)/mypy

docs: $(VENV)/.installed-docs ## build the documentation into site/, strictly
	$(BIN)/mkdocs build --strict

install: $(VENV)/.installed-test ## make the environment for work on gpuwhy

clean: ## remove the environment, the compiled library and the tools' caches
	rm -rf .venv dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f $(SCAN)/_scan.so $(SCAN)/_scan.dylib $(WHATIF)/_longest.so $(WHATIF)/_longest.dylib

$(VENV)/.installed: $(INSTALLS) | $(VENV)/.made
	@echo 'installing gpuwhy into $(VENV)'
	@$(PIP) install --editable .
	@ls $(SCAN)/_scan.* >/dev/null 2>&1 || echo '$(NOT_COMPILED)'
	@touch $@

$(VENV)/.installed-test: $(INSTALLS) | $(VENV)/.made
	@echo 'installing gpuwhy and its tests’ tools into $(VENV)'
	@$(PIP) install --editable '.[test]'
	@ls $(SCAN)/_scan.* >/dev/null 2>&1 || echo '$(NOT_COMPILED)'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-torch: $(VENV)/.installed-test
	@echo 'installing torch into $(VENV)'
	@$(PIP) install --editable '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(INSTALLS) | $(VENV)/.made
	@echo 'installing what builds the documentation into $(VENV)'
	@$(PIP) install --editable '.[docs]'
	@touch $@

# The first candidate that runs, is new enough and can make an environment (Debian splits venv off).
$(VENV)/.made:
	@old=; bare=; \
	for python in $(CANDIDATES); do \
	  "$$python" -c '' 2>/dev/null || continue; \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { old="$$old $$python"; continue; }; \
	  "$$python" -c 'import ensurepip, venv' 2>/dev/null || { bare="$$bare $$python"; continue; }; \
	  echo "making the environment $(VENV) with $$("$$python" --version) ($$python)"; \
	  "$$python" -m venv '$(VENV)' && touch $@; exit; \
	done; \
	if [ -n "$$bare" ]; then \
	  echo "Python without its venv module:$$bare. Install it (Debian and Ubuntu: apt install python3-venv)" \
	       "or choose another Python: make PYTHON=…"; \
	elif [ -n "$$old" ]; then \
	  echo "Python 3.10 or newer is needed, and this is older:$$old. Choose another: make PYTHON=…"; \
	else \
	  echo "Python 3.10 or newer is needed, and none was found as: $(CANDIDATES). Name it: make PYTHON=…"; \
	fi >&2; exit 1
