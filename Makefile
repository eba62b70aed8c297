# `make` alone lists what there is.
#   PYTHON=python3.12   the Python to build .venv with (3.11 or newer)
#   LAB_ARGS=...        more arguments for JupyterLab, for example LAB_ARGS=--no-browser
#   TEST_ARGS=...       more arguments for pytest, for example TEST_ARGS='-k observe'
#   BENCH_ARGS=--quick  short benchmarks, which leave benchmarks/README.md alone

PYTHON      ?= python3
PY          := .venv/bin/python
PIP         := $(PY) -m pip --disable-pip-version-check
FIRST       := notebooks/00-start-here.ipynb
TORCH       := $(shell grep '^torch==' constraints.txt)
TORCH_INDEX := https://download.pytorch.org/whl/cpu

# Many containers set this. Then each new interpreter of a test compiles the whole package again.
unexport PYTHONDONTWRITEBYTECODE

# For two cores: many tests wait for a deadline, and others work meanwhile. Of the thorough ones
# most run to the limit of a check, which a busy machine would make longer.
PARALLEL := -n 5 --dist loadgroup --durations=25
THOROUGH := -n 3 --dist loadgroup --durations=25

# Written last: a .venv without it was never finished.
MADE := .venv/made
BENCH := .venv/bench
WRAPPERS := .venv/wrappers

.PHONY: help .venv lab test test-thorough test-wrappers notebooks claims lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "dltutor: break a PyTorch DataLoader, see what happened, fix it."
	@grep -hE '^[.a-z-]+:.*## ' Makefile | sed -E 's/^([.a-z-]+):.*## /\1|/' | \
	    awk -F '|' '{ printf "  make %-13s %s\n", $$1, $$2 }'

lab: $(MADE) ## open the course in JupyterLab, at the first lesson; installs first where needed
	$(PY) -m jupyterlab --ip=127.0.0.1 --allow-root --LabApp.default_url=/lab/tree/$(FIRST) $(LAB_ARGS)

test: lint ## everything that CI runs: lint, then the tests, the notebooks among them
	$(PY) -m pytest $(PARALLEL) -m "not thorough" $(TEST_ARGS)

test-thorough: $(MADE) ## the tests that take too long for each time; before a release
	$(PY) -m pytest $(THOROUGH) -m "thorough" $(TEST_ARGS)

test-wrappers: $(WRAPPERS) ## the tests with accelerate, datasets, Lightning, torchdata, webdataset
	$(PY) -m pytest $(THOROUGH) tests/observation/test_wrappers.py tests/diagnosis/test_wrapped.py \
	    $(TEST_ARGS)

notebooks: $(MADE) ## run the solved notebooks again, make the learner's from them, and the cheat sheet
	$(PY) scripts/notebooks.py
	$(PY) scripts/cheatsheet.py

claims: $(MADE) ## measure every claim on trial again, and write notebooks/CLAIMS.md
	$(PY) scripts/claims.py

lint: $(MADE) ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(BENCH) ## what observing costs, beside other tools: 20 minutes, on a quiet machine
	$(PY) benchmarks/run.py $(BENCH_ARGS)

.venv: $(MADE) ## the environment, in .venv; anew only where its pins have changed

clean: ## remove .venv and all caches
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build dist test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# PyTorch's own index has the small build for the CPU; the default index gives Linux the one for
# CUDA, ten times the size. So torch is asked for there first, alone and with little patience:
# named beside the default index, an index that does not answer would be tried for every package.
$(MADE): pyproject.toml constraints.txt
	@test -f $@ || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "dltutor needs Python 3.11 or newer. Name one: make PYTHON=python3.12")'
	test -f $@ || $(PYTHON) -m venv --clear .venv
	rm -f $@
	$(PIP) install --no-deps --retries 0 --timeout 10 --index-url $(TORCH_INDEX) $(TORCH) 2>/dev/null \
	    || echo "$(TORCH_INDEX) has no $(TORCH) for this machine, or does not answer: the default index then."
	@echo "Installing the rest: a minute or two."
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(BENCH): $(MADE)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

$(WRAPPERS): $(MADE)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[wrappers]'
	touch $@
