# Two commands from a fresh clone: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench bars learn report paper-numbers docs clean help triton

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## */\t/' | expand -t 18

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "unshuffle needs Python 3.10 or newer; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV): some hundred megabytes to download the first time, then never again."
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)   ## unshuffle a shipped photo and show before and after
	$(BIN)/unshuffle demo
	@echo "For the command itself: source $(BIN)/activate, then unshuffle --help."

test: export PYTHONDONTWRITEBYTECODE :=  # every process of the tests reads all of the code: it is translated once, not by each

test: $(READY)   ## lint, then types and all tests
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

lint: $(READY)   ## ruff and pyright only, with repairs
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/pyright

bench: $(READY)  ## speed and memory of the operator and of a training step
	$(BIN)/unshuffle bench --out results/bench
	$(BIN)/python benchmarks/performance_page.py

bars: $(READY)   ## what the solver reaches on real data: make bars DATA=folder (takes an hour or more)
	@test -n "$(DATA)" || { echo "say where the data is: make bars DATA=folder"; exit 1; }
	for problem in tours qap jigsaw strips seriation; do $(BIN)/python benchmarks/solve_$$problem.py --data $(DATA) || exit 1; done
	$(BIN)/python benchmarks/reference_tours.py --data $(DATA)
	for problem in growth temperature loss; do $(BIN)/python benchmarks/solve_$$problem.py || exit 1; done
	$(BIN)/python benchmarks/solve_qap.py --generated && $(BIN)/python benchmarks/tour_confidence.py && $(BIN)/python benchmarks/graph_confidence.py
	$(BIN)/python benchmarks/path_confidence.py --data $(DATA)

learn: $(READY)  ## what training reaches: make learn DATA=folder (hours; goes on where it stopped)
	@test -n "$(DATA)" || { echo "say where the data is: make learn DATA=folder"; exit 1; }
	$(BIN)/unshuffle reproduce all --scale cpu --data $(DATA)/faces
	$(BIN)/python benchmarks/learn_jigsaw.py --data $(DATA)
	$(BIN)/python benchmarks/learn_tours.py --data $(DATA)

report: $(READY) ## tables, figures and a page of the paper's numbers beside ours, from results/
	$(BIN)/unshuffle report --out unshuffle-report

paper-numbers: $(READY)  ## the numbers that docs/choosing.md, concepts.md and reproducing.md quote
	for study in mechanism baselines controller choosing; do $(BIN)/python benchmarks/$$study.py || exit 1; done

docs: $(READY)   ## the documentation as a site that needs no network, in site/
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

triton: $(READY) ## the GPU kernels without a GPU: in Triton's interpreter, and compiled for three targets (a wheel of 290 MB)
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev,triton]' || { echo "triton could not be installed (Linux only, a wheel of 290 MB); its tests were not run"; exit 1; }
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -n auto tests/test_triton.py

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis
