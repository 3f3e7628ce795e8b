# attnviz in a few words: `make run` opens it, `make test` checks and tests it. `make help` lists the rest.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
  $$p -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
PORT ?= 8501
BIN = $(VENV)/bin
TORCH_INDEX ?=
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --quiet

# Install the requirement files of a target. The pinned torch comes from TORCH_INDEX, if that is set; all else does not.
define install
@echo "Installing into $(VENV) what $^ name; the first time this takes minutes."
@grep -hv -e '^-r' -f $(VENV)/kept $^ > $(VENV)/wanted
$(if $(TORCH_INDEX),@grep '^torch==' $(VENV)/wanted | PIP_INDEX_URL="$(TORCH_INDEX)" xargs -r $(INSTALL) --no-deps)
$(INSTALL) -r $(VENV)/wanted
@$(BIN)/python -m compileall -q attnviz
endef

.PHONY: help run test check docs bench bench-peers load sweep kernels train evidence screenshots image clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1	/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

run: $(VENV)/for-app ## open the app on http://127.0.0.1:8501 (another port: make run PORT=8600)
	$(BIN)/python -m attnviz app --port $(PORT)

test: ## check, then run every test; some of them: make test ARGS="-k heads"
	@VENV=$(VENV) tests/run $(ARGS)

check: $(VENV)/for-tests ## ruff, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/lint-imports

docs: $(VENV)/for-docs ## build the documentation in build/site, without a network; it opens from disk: build/site/index.html
	for model in story translator; do $(BIN)/python -m attnviz explore --live $$model -o docs/live/$$model.html; done
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

bench: $(VENV)/for-tests ## measure the core, the app and the exports; prints tables, asserts nothing
	PYTHONPATH=. $(BIN)/python tests/benchmarks/core.py
	PYTHONPATH=. $(BIN)/python tests/benchmarks/long.py
	PYTHONPATH=. $(BIN)/python tests/benchmarks/capture.py
	PYTHONPATH=. $(BIN)/python tests/benchmarks/app.py
	PYTHONPATH=. $(BIN)/python tests/benchmarks/atlas.py

bench-peers: $(VENV)/peers ## measure the page of every head beside BertViz and CircuitsVis; it fetches them, and needs npm
	PYTHONPATH=.:$(VENV)/peers $(BIN)/python tests/benchmarks/peers.py $(VENV)/peers $(ARGS)

load: $(VENV)/for-tests ## measure the app with 30 users at once; as it is for others: make load ARGS="--public --minutes 20"
	PYTHONPATH=. $(BIN)/python tests/benchmarks/load.py $(ARGS)

sweep: $(VENV)/for-tests ## 50 times as many examples of each law, every case of those that are many, and what is marked sweep
	$(BIN)/python -m pytest --hypothesis-profile=sweep -m "" $(ARGS)

kernels: $(VENV)/for-tests ## the tests of numbers as other CPUs compute, on one thread and on two
	$(BIN)/python tests/kernels.py $(ARGS)

train: $(VENV)/for-tests ## train the shipped models again; one of them: make train MODEL=story
	PYTHONPATH=. $(BIN)/python -m attnviz.training train $(MODEL)

evidence: $(VENV)/for-tests ## measure the shipped models afresh, for their cards; one of them: make evidence MODEL=story
	PYTHONPATH=. $(BIN)/python -m attnviz.training evidence $(MODEL)

atlas: $(VENV)/for-tests ## build the atlases that ship, of the trained models over their held-out texts, again
	PYTHONPATH=. $(BIN)/python -m attnviz.training atlases

screenshots: $(VENV)/for-tests ## take the documentation's pictures again, and every state of every page on one sheet
	PYTHONPATH=.:tests $(BIN)/python tests/browser/screenshots.py

image: ## build the container image
	docker build --tag attnviz --build-arg TORCH_INDEX="$(TORCH_INDEX)" .

clean: ## remove the environment and everything that is made again
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .ruff_cache .import_linter_cache

$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "There is no Python 3.11 or newer with venv here. On Debian: apt install python3-venv."; \
	  echo "Elsewhere, say where it is: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

# Asked once, of an environment that make has not filled yet: is there a torch that attnviz runs on? It is kept.
$(VENV)/kept: | $(BIN)/pip
	@if [ ! -e $(VENV)/for-app ] && PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= $(INSTALL) --dry-run --no-deps --no-index \
	  "$$(grep -o 'torch>=[^"]*' pyproject.toml)" 2>/dev/null; then echo '^torch=='; else echo '^$$'; fi > $@

$(VENV)/for-app: requirements.txt | $(VENV)/kept
	$(install)
	@touch $@

$(VENV)/for-docs: requirements.txt docs/requirements.txt | $(VENV)/kept
	$(install)
	@touch $@ $(VENV)/for-app

$(VENV)/for-tests: requirements.txt docs/requirements.txt tests/requirements.txt | $(VENV)/kept
	$(install)
	@touch $@ $(VENV)/for-app $(VENV)/for-docs

# What the benchmark alone compares with, and the scripts that its pages ask a network for.
PEERS = bertviz==1.4.1 circuitsvis==1.43.3
SCRIPTS = d3@5.7.0 jquery@2.2.4 requirejs@2.3.6

$(VENV)/peers: $(VENV)/for-tests
	@rm -rf $@ $@.part && mkdir -p $@.part
	$(INSTALL) --no-deps --target $@.part $(PEERS)
	$(INSTALL) --target $@.part importlib_metadata
	@cd $@.part && npm pack --silent $(SCRIPTS) >/dev/null && for file in *.tgz; do tar xzf $$file && \
	  find package -name d3.min.js -o -path package/dist/jquery.min.js -o -path package/require.js | xargs -I{} mv {} . && \
	  rm -rf package $$file; done
	@mv $@.part $@
