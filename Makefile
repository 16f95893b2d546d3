# `make` alone lists the targets. Each sets up by itself what it needs, in .venv, and later runs use what is there.
# With PYTHON=/some/python nothing is installed: that interpreter is used as it is.

ifdef PYTHON
  PY := "$(PYTHON)"
  any_python := $(PY)
  ready = $(PY) -m utils.manage.install --needs
else
  PY := .venv/bin/python
  any_python = $$($(PY) -c "" >/dev/null 2>&1 && echo $(PY) || echo python3)
  ready = command -v python3 >/dev/null || $(no_python); python3 -m utils.manage.install \#
endif

no_python = { echo "There is no python3 here: install Python 3.10 or newer." >&2; exit 1; }

# One process more than there are cores, since some tests only wait; four at most, since each takes a GB of memory. A
# test that ends its process, or hangs, fails once.
workers = -n $$(n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 3 ? n + 1 : 4))) --dist loadfile --max-worker-restart 0
# They share the cores: where torch's threads wait for one another, each would keep a core busy until it has its turn.
together = OMP_NUM_THREADS=1

.PHONY: help course test test-browser lint lab reset slides present handout grade doctor site outputs bench bench-build bench-engine publish clean clean-cache
.DEFAULT_GOAL := help

help: ## list the targets
	@echo "usage: make TARGET [PYTHON=/some/python]"
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  %-12s %s\n' "$$name" "$$text"; done

course: ## run every lesson from top to bottom and say which passed (LESSON=03: only that one)
	@$(ready) course
	@$(PY) -m utils.manage.run $(LESSON)

test: ## linter, unit tests, and every lesson's outputs against the committed ones
	@$(ready) test
	@echo "== 1 of 4: ruff check"
	@$(PY) -m ruff check .
	@echo "== 2 of 4: ruff format --check"
	@$(PY) -m ruff format --check .
	@echo "== 3 of 4: pytest tests"
	@$(together) $(PY) -m pytest -q $(workers) --ignore tests/browser -m "not alone" tests
	@$(PY) -m pytest -q --ignore tests/browser -m alone tests
	@echo "== 4 of 4: pytest --nbval notebooks, on the CPU as on a T4"
	@$(together) CUDA_COURSE_GPU=T4 $(PY) -m pytest -q $(workers) --nbval --nbval-current-env -p no:cacheprovider notebooks

test-browser: ## players, slides and lessons in a browser, with the system's Chromium (LESSON=03: of the lessons, only that one)
	@$(ready) test-browser
ifndef PYTHON
	@$(PY) -c "import playwright, jupyterlab_rise" 2>/dev/null || $(PY) -m pip install --quiet --editable ".[browser,present]"
endif
	@LESSON="$(LESSON)" $(PY) -m pytest -q tests/browser

lint: ## ruff, the linter and the formatter; changes nothing
	@$(ready) lint
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

lab: ## open JupyterLab on your own copies of the lessons (ARGS="--no-browser": its options)
	@$(ready) lab
	@$(PY) -m utils.manage.lab $(ARGS)

reset: ## renew your copy of one lesson, LESSON=03; the old copy is kept
	@$(ready) reset
	@$(PY) -m utils.manage.lab --reset "$(LESSON)"

slides: ## lessons as slides for a lecture, one file each, in build/slides (LESSON=07: only that one)
	@$(ready) slides
	@$(PY) -m utils.manage.slides $(LESSON)

present: ## the slides of one lesson, LESSON=07, live in JupyterLab: their cells run
	@$(ready) present
ifndef PYTHON
	@$(PY) -c "import jupyterlab_rise" 2>/dev/null || $(PY) -m pip install --quiet --editable ".[present]"
endif
	@$(PY) -m utils.manage.present "$(LESSON)" $(ARGS)

handout: ## pack lessons for a class, with and without solutions: LESSONS="01 02 03"
	@$(any_python) -m utils.manage.handout $(LESSONS)

grade: ## judge the notebooks that participants have handed in: FOLDER=returned
	@$(ready) grade
	@$(PY) -m utils.manage.grade "$(FOLDER)"

doctor: ## what this machine has for the course, what is missing, and how to fix it; installs nothing
	@command -v $(any_python) >/dev/null || $(no_python)
	@$(any_python) -m utils.manage.install --needs doctor
	@$(any_python) -m utils.manage.doctor

site: ## the lessons with their outputs as pages, in build/site; runs no lesson
	@$(ready) site
ifndef PYTHON
	@$(PY) -c "import sphinx, myst_nb, sphinx_book_theme" 2>/dev/null || $(PY) -m pip install --quiet --editable ".[docs]"
endif
	@$(PY) -m utils.manage.site

outputs: ## run the lessons in place, to refresh the committed outputs on a machine with a GPU (LESSON=03)
	@$(ready) outputs
	@$(PY) -m utils.manage.outputs $(LESSON)

bench: ## time every operation of kernels/ beside its peers, and fill the tables (ARGS="--only bandwidth")
	@$(ready) bench
	@$(PY) -m bench $(ARGS)

bench-engine: ## how fast the CPU engine is, beside Python and Numba simulators
	@$(ready) bench-engine
	@$(PY) -m bench.engine

bench-build: ## how long builds take, beside stock load_inline (some minutes)
	@$(ready) bench-build
	@$(PY) -m bench.build $(ARGS)

publish: ## write the public address into notebooks and README, REPO=owner/name REF=v1.0 (UNDO=1: take it out)
	@$(any_python) -m utils.manage.publish $(if $(UNDO),--undo,"$(REPO)" "$(REF)")

clean-cache: ## remove what the course has compiled and kept
	@$(any_python) -m utils.manage.cache --clear

clean: ## remove what can be made again: .venv, build/, caches; your copies in lab/ stay
	rm -rf .venv build .pytest_cache .ruff_cache cuda_course.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
