# Every target sets up what it needs by itself, in .venv; only python3 (3.11 or newer) and make are
# presumed. PYTHON=python3.12 make test uses another interpreter.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
RIVALS := .venv-rivals
# One more than cores, because many tests wait: for other processes, the disk, timers.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
RIVALS_READY := $(RIVALS)/.ready

.PHONY: help reproduce test check docs bench soak wheel dist lock clean

help:
	@echo "make reproduce   the paper's experiment: figures, verdicts on the claims, one page (results/figure-1)"
	@echo "make test        the tests"
	@echo "make check       style, types and the direction of imports"
	@echo "make docs        the documentation site (site/index.html)"
	@echo "make bench       speed and memory, compared with other packages"
	@echo "make soak        the long-running tests"
	@echo "make wheel       a wheel with prebuilt machine code for this platform (dist)"
	@echo "make dist        what is published: source distribution and pure wheel, checked (dist)"
	@echo "make lock        resolve the dependencies anew (requirements.lock)"
	@echo "make clean       remove what the targets set up"

# Without --no-compile, pip compiles every file of every package, most of which are never imported.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "switchmdp needs Python 3.11 or newer; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(RUN) -m pip install -q --no-compile --disable-pip-version-check --require-hashes -r requirements.lock
	@$(RUN) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(RIVALS_READY): benchmarks/rivals/requirements.txt
	@echo "setting up $(RIVALS) (other packages, for comparison) ..."
	@$(PYTHON) -m venv --clear $(RIVALS)
	@$(RIVALS)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

reproduce: $(READY)
	$(VENV)/bin/switchmdp reproduce --out results/figure-1

# The tests start hundreds of Python processes, which must not compile every source file again. Numba
# would colour the context of each possible error, which takes a thirtieth of the time to compile.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING=1 $(RUN) -m pytest -m "not soak" -n $(WORKERS) --dist loadgroup

check: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

# Broken links and undocumented public names are errors. The tutorials are executed as notebooks.
docs: $(READY)
	$(RUN) -m mkdocs build
	$(RUN) -m tools.notebooks site/notebooks

# The comparison is worth having, but its absence must not hide our own numbers.
bench: $(READY)
	-@$(MAKE) --no-print-directory $(RIVALS_READY)
	$(RUN) benchmarks/run.py --rivals $(RIVALS)/bin/python

soak: $(READY)
	$(RUN) -m pytest -m "soak or hypothesis" --hypothesis-profile=soak -v

# The wheel fits the versions of Python, Numba and NumPy that are in $(VENV).
wheel: $(READY)
	$(RUN) tools/prebuild.py build/prebuilt
	SWITCHMDP_PREBUILT=build/prebuilt $(RUN) -m pip wheel -q --disable-pip-version-check --no-deps \
	  --no-build-isolation --wheel-dir dist .

dist: $(READY)
	rm -rf dist
	$(RUN) -m build --no-isolation --outdir dist
	$(RUN) -m twine check --strict dist/*
	$(VENV)/bin/check-wheel-contents dist/*.whl

lock: $(READY)
	$(RUN) -m pip install -q --disable-pip-version-check uv
	$(RUN) -m uv pip compile pyproject.toml --extra dev --extra docs --generate-hashes --universal \
	  --python-version 3.11 --no-emit-index-url --no-header --no-annotate --upgrade -q \
	  -o requirements.lock

clean:
	rm -rf $(VENV) $(RIVALS) build dist results site .pytest_cache .mypy_cache .ruff_cache
