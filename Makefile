# Every target makes its own virtual environment from a bare clone; nothing but Python 3.11 is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Parties that count each other's heartbeats, and clusters that must be up in time, have the machine to themselves;
# all other tests run two at a time, each on one thread. The second call runs whatever came of the first, and a failure
# of either is one of the whole.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q
CHOSEN :=
TESTS = $(PYTEST) -n 2 --dist loadfile -m "not alone $(CHOSEN)"; first=$$?; \
	$(PYTEST) tests -m "alone $(CHOSEN)" && exit $$first

.PHONY: demo test quick lint docs bench peers dist clean

demo: $(STAMP)
	$(BIN)/colonnade demo

test: lint
	$(TESTS)

quick: CHOSEN := and not slow
quick: lint
	$(TESTS)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The documentation as pages for a browser: open site/index.html; to search it too, serve the folder site.
docs: $(STAMP)
	$(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)
	$(BIN)/python bench/wire.py
	$(BIN)/python bench/split.py
	$(BIN)/python bench/align.py
	$(BIN)/python bench/crash.py --kills 200
	$(BIN)/python bench/report_page.py

# A wheel and a source archive in dist/.
dist: $(STAMP)
	$(BIN)/python -m build --no-isolation

# The published methods that the causal benches compare with, in an environment of their own.
peers:
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --quiet --requirement bench/peers/requirements.txt

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
