# SPDX-License-Identifier: Apache-2.0
#
# make            what there is to make
# make setup      .venv: Python, ROS 2 Jazzy as wheels, the messages, this package; done once
#                 (ROS=kilted, for all of these: ROS 2 Kilted, in .venv-kilted)
# make demo       identify a simulated arm over ROS and show what was found
# make test       set-up, checks and all tests
# make soak       the demo, a node killed in every step of it; false joint states; long sweeps
# make fuzz       20,000 mutated files and requests for every reader
# make docs       the documentation as a site, in build/docs
# make papers     the papers' tables, reproduced into docs/reference/papers.md

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The distribution of ROS 2: jazzy, or kilted in an environment of its own.
ROS ?= jazzy
VENV := .venv$(if $(filter-out jazzy,$(ROS)),-$(ROS))
CONSTRAINTS := requirements/constraints$(if $(filter-out jazzy,$(ROS)),-$(ROS)).txt
BIN := $(VENV)/bin
# With a file's tests on one process, what they share is made once. Told are tests that were left
# out, and why, and which took longest. A process that hangs outside of Python, where a test's
# timeout does not reach, ends with its stack after a time that no test takes.
PYTEST = $(BIN)/python -m pytest -rs --durations=25 --dist loadfile --no-loadscope-reorder \
    -o faulthandler_timeout=660 -o faulthandler_exit_on_timeout=true --max-worker-restart 2

# The environment is made from this Python. Without one, set-up keeps the one that it has, or
# takes the first on PATH that fits.
PYTHON ?=

# What starts set-up may be any Python: a first one that fits saves a search.
STARTER := $(or $(PYTHON),$(firstword $(foreach name,python3 python3.12 python3.11 \
    python3.13 python3.10 python,$(shell command -v $(name) 2>/dev/null))))

# Tests run on this many processes. Those over DDS have further processes, the nodes: more at a time
# would hold each other up.
JOBS ?= 2

# What is made here runs on the ROS wheels of .venv. A sourced ROS would mix its packages in, which
# are built for another Python; with it, tests run by `python3 -m pytest` or `colcon test`.
unexport AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH PYTHONHOME PYTHONPATH
unexport VIRTUAL_ENV _ROS_WHEELS_BOOTSTRAP_COMPLETE

# Set-up leaves the compiling of modules to their first import. Where its result is not kept, each of
# the hundreds of processes that tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# What the distribution's middleware is called tells which of its variables it reads.
export ROS_DISTRO := $(ROS)

# Nodes write their logs here: without it they need HOME.
export ROS_LOG_DIR ?= $(CURDIR)/log/ros

# The matrices are small: threads of the linear algebra only get in each other's way.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help setup compiled demo test test-over-dds test-computing test-installed soak bench fuzz papers docs \
    lint format types ros-release clean distclean

help:  ## this list
	@echo 'Usage: make TARGET [PYTHON=python3.12] [ROS=jazzy] [JOBS=2] [ARGS=...] [DIR=...]'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## */  \1|/p' $(firstword $(MAKEFILE_LIST)) \
	    | while IFS='|' read -r target text; do printf '%-12s %s\n' "$$target" "$$text"; done

setup:  ## make .venv, or bring it up to date
	@if [ -z '$(STARTER)' ]; then \
	    echo 'No Python was found. Install one of 3.10 to 3.13:' >&2; \
	    echo '  sudo apt install python3.12 python3.12-venv python3.12-dev' >&2; exit 1; fi
	@'$(STARTER)' scripts/set_up.py --ros '$(ROS)' $(if $(PYTHON),--python '$(PYTHON)')

demo: setup  ## identify a simulated arm over ROS (ARGS: options of the command)
	@$(BIN)/robot-identification demo $(ARGS)

DDS_TESTS := test/nodes test/launch test/test_fuzz.py

# What talks over DDS keeps to the wall clock, and waits most of the time. Types and what computes
# have the processors meanwhile, at a lower priority; what computes is shown at its end.
# Some tests of the second kind wait for other programs, which one process more makes use of.
test: setup  ## run the checks and all tests (ARGS: options of pytest)
	@$(MAKE) --no-print-directory --jobs=4 lint test-over-dds test-computing test-installed

# Six processes that find no machine code, nor pytest's version of the tests, would each make them.
compiled:
	@nice -n 5 $(BIN)/python -m robot_identification.support.compiled
	@$(BIN)/python -m pytest -qq --collect-only >/dev/null 2>&1 || true

# Each process imports the files of all tests that it is given: half of the time that its start takes
# is saved by naming those with DDS.
# Exit code 5 is pytest's word for none of the tests that ARGS names being in that half.
test-over-dds: compiled
	@$(PYTEST) -n $(JOBS) -m 'ros and not soak' $(or $(ARGS),$(DDS_TESTS)) || [ $$? -eq 5 ]

test-computing: compiled
	@mkdir -p log
	@nice -n 5 $(PYTEST) -n $$(($(JOBS) + 1)) -m 'not ros and not soak and not installed' \
	    --ignore=test/nodes $(ARGS) \
	    >log/$@.log 2>&1; code=$$?; cat log/$@.log; [ $$code -eq 0 ] || [ $$code -eq 5 ]

# One process: it waits for the network, then for one command at a time. Most of a gigabyte is
# installed within the first test, which may take longer than any other on a busy machine.
test-installed: compiled
	@mkdir -p log
	@nice -n 5 $(PYTEST) -o faulthandler_timeout=1860 -m 'installed and not soak' $(or $(ARGS),test/test_installed.py) \
	    >log/$@.log 2>&1; code=$$?; cat log/$@.log; [ $$code -eq 0 ] || [ $$code -eq 5 ]

soak: setup  ## long tests: nodes killed in every step of the demo, false states 20 times, sweeps
	@$(BIN)/python -m pytest -rs -m soak $(ARGS)

# Without a network, benchmarks tell which of the others they could not compare with.
bench: setup  ## time what has to be fast (ARGS: names of benchmarks)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 1 \
	    -r requirements/benchmarks.txt -c $(CONSTRAINTS) 2>/dev/null \
	    || echo 'requirements/benchmarks.txt could not be installed: comparing with less'
	@$(BIN)/python -m benchmarks $(ARGS)

# Bounded by --inputs and --seconds; findings go to log/fuzz, and --reproduce runs one again.
fuzz: setup  ## feed mutated files and requests to every reader (ARGS: --inputs, --targets, ...)
	@$(BIN)/python -m fuzz $(ARGS)

papers: setup  ## reproduce the papers' tables into docs/reference/papers.md (ARGS: names of papers)
	@$(BIN)/python -m benchmarks.papers $(ARGS)

# Warnings are errors: a link that leads nowhere, a page that no list has, a docstring amiss.
docs: setup  ## build the documentation as a site in build/docs, warnings as errors
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    -r requirements/docs.txt -c $(CONSTRAINTS)
	@$(BIN)/python -m sphinx -q -W --keep-going docs build/docs
	@echo 'open build/docs/index.html'

lint: setup types  ## check style, formatting, types, spelling and docstrings
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell
	@$(BIN)/python scripts/check_docstrings.py

# bloom and a plain `colcon build` look for no package inside of another one.
ros-release:  ## lay both ROS packages side by side in DIR, for bloom and colcon
	@if [ -z '$(DIR)' ]; then echo 'error: say where: make ros-release DIR=../release' >&2; exit 1; fi
	@'$(STARTER)' scripts/ros_release.py '$(DIR)'

format: setup  ## put style and formatting right
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: setup  ## check types alone
	@nice -n 5 $(BIN)/mypy --no-error-summary

clean:  ## remove what building and testing left behind; keep .venv
	@rm -rf build install log dist .pytest_cache .ruff_cache .mypy_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean  ## remove .venv too
	@rm -rf .venv .venv-kilted .venv.lock
