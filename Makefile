# Needs Python 3.11 or newer, git and make; everything else goes into .venv.
# Another Python: make PYTHON=/path/to/python3 test

BIN := .venv/bin
RUN := $(BIN)/python -m

# What a shell may hand down that would change which Python or which code runs.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PYTHONSAFEPATH PYTHONOPTIMIZE PYTHONWARNINGS VIRTUAL_ENV

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test lint bench soak mutation scoreboard clean

help:
	@echo "make demo    what is whole goes through, the same cut short is refused: a plan, a verdict"
	@echo "make setup   everything for working on endmark, in .venv"
	@echo "make test    lint, then the tests"
	@echo "make lint    ruff, mypy and the import contracts"
	@echo "make soak    the long tests: more kills, more cuts, more examples"
	@echo "make mutation  remove each check of the code: which one does no test notice?"
	@echo "make bench   the figures in README.md"
	@echo "make scoreboard   docs/reliability.md, every figure measured anew; ROWS='cuts flips' for some of them"
	@echo "make clean   remove .venv and what tools left behind"

setup:
	@sh scripts/setup.sh dev

demo:
	@sh scripts/setup.sh demo
	@$(RUN) endmark.faces.demo

lint: setup
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) mypy
	@$(BIN)/lint-imports --no-logo

test: lint
	@$(RUN) pytest -n auto

soak: setup
	@$(RUN) pytest -n auto -m "soak or not soak" --hypothesis-profile=soak

mutation: setup
	@$(RUN) tests.mutation $(MUTATION)

bench:
	@sh scripts/setup.sh bench
	@$(RUN) bench

scoreboard: setup
	@$(RUN) bench.scoreboard $(ROWS)

clean:
	@rm -rf .venv build dist .coverage .coverage.* htmlcov
	@rm -rf .hypothesis .mutation .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
