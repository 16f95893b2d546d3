# `make` alone lists the targets. Each sets up by itself what it needs, in .venv, and later runs use what is there.
# With PYTHON=/some/python nothing is installed: that interpreter is used as it is.

ifdef PYTHON
  PY := "$(PYTHON)"
  check = $(PY) utils/manage/install.py --check
else
  PY := .venv/bin/python
  check = command -v python3 >/dev/null || { echo "There is no python3 here: install Python 3.10 or newer." >&2; exit 1; }; \
    python3 utils/manage/install.py \#
endif

workers = -n auto --maxprocesses 4 --dist loadscope

.PHONY: help course test lint lab reset outputs bench bench-build bench-engine publish clean clean-cache
.DEFAULT_GOAL := help

help: ## list the targets
	@echo "usage: make TARGET [PYTHON=/some/python]"
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  %-12s %s\n' "$$name" "$$text"; done

course: ## run every lesson from top to bottom and say which passed (LESSON=03: only that one)
	@$(check) course
	@$(PY) -m utils.manage.course run $(LESSON)

test: ## linter, unit tests, and every lesson's outputs against the committed ones
	@$(check) test
	@echo "== 1 of 4: ruff check"
	@$(PY) -m ruff check .
	@echo "== 2 of 4: ruff format --check"
	@$(PY) -m ruff format --check .
	@echo "== 3 of 4: pytest tests"
	@$(PY) -m pytest -q $(workers) -m "not alone" tests
	@$(PY) -m pytest -q -m alone tests
	@echo "== 4 of 4: pytest --nbval notebooks"
	@$(PY) -m pytest -q $(workers) --nbval --nbval-current-env -p no:cacheprovider notebooks

lint: ## ruff, the linter and the formatter; changes nothing
	@$(check) lint
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

lab: ## open JupyterLab on your own copies of the lessons (ARGS="--no-browser": its options)
	@$(check) lab
	@$(PY) -m utils.manage.course lab $(ARGS)

reset: ## renew your copy of one lesson, LESSON=03; the old copy is kept
	@$(check) reset
	@$(PY) -m utils.manage.course reset "$(LESSON)"

outputs: ## run the lessons in place, to refresh the committed outputs on a machine with a GPU (LESSON=03)
	@$(check) outputs
	@$(PY) -m utils.manage.course outputs $(LESSON)

bench: ## time every operation of kernels/ beside its peers, and fill the tables (ARGS="--only bandwidth")
	@$(check) bench
	@$(PY) -m bench $(ARGS)

bench-engine: ## how fast the CPU engine is, beside Python and Numba simulators
	@$(check) bench-engine
	@$(PY) -m bench.engine

bench-build: ## how long builds take, beside stock load_inline (some minutes)
	@$(check) bench-build
	@$(PY) -m bench.build $(ARGS)

publish: ## write the public address into notebooks and README, REPO=owner/name REF=v1.0
	@$(if $(PYTHON),$(PY),python3) utils/manage/publish.py "$(REPO)" "$(REF)"

clean-cache: ## remove what the course has compiled and kept
	@$(if $(PYTHON),$(PY),$(if $(wildcard $(PY)),$(PY),python3)) -m utils.manage.cache --clear

clean: ## remove what can be made again: .venv, build/, caches; your copies in lab/ stay
	rm -rf .venv build .pytest_cache .ruff_cache cuda_course.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
