# Everything a person does here. Needs Python 3.11 or later, make and git; the rest comes from requirements.lock.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.made-from-lock
FUZZ_STAMP := .venv-fuzz/.made-from-lock
TRIAL := .broker
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.DEFAULT_GOAL := help
.PHONY: help demo serve test lint fix bench bench-policy bench-rollback bench-revoke bench-memory fuzz soundness lock

help: ## Show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo: $(STAMP) ## The whole story on real processes, told step by step
	@$(BIN)/python -m tests.journeys.demo

serve: $(STAMP) $(TRIAL)/policies/trust.yaml ## A broker with its own store on http://127.0.0.1:8420, for trying out
	@echo "broker:         http://127.0.0.1:8420  (/readyz, /openapi.json, /docs/wire); Ctrl-C stops it"
	@echo "policy, keys:   $(TRIAL)/policies"
	@echo "administer it:  export BROKER_ADMIN=operator BROKER_ADMIN_KEY=$(TRIAL)/policies/keys/operator.pem"
	@echo "                $(BIN)/broker version publish db.query@3"
	@exec $(BIN)/broker serve --policies $(TRIAL)/policies --data $(TRIAL)/data

test: $(STAMP) ## All tests, a file at a time on up to four cores
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: $(STAMP) $(TRIAL)/policies/trust.yaml ## Style, types, layers, deploy files, policy, words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/yamllint --strict -c .ci/yamllint.yaml $$(git ls-files "*.yaml" "*.yml")
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows deploy/ci/policy.github.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci deploy/ci/policy.gitlab.yml
	$(BIN)/pre-commit validate-manifest .pre-commit-hooks.yaml
	$(BIN)/broker policy check --without-keys policies
	$(BIN)/broker policy test policies >/dev/null
	.ci/words

fix: $(STAMP) ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## CPU per request beside its own crypto
	@$(BIN)/python -m tests.bench

bench-rollback: $(STAMP) ## From a rollback to the last of 1, 50, 200 verifiers that refuses, beside a bare echo of events
	@$(BIN)/python -m tests.bench.rollback

bench-policy: $(STAMP) ## broker policy check over 300 real tools: first run, second run, memory
	@$(BIN)/python -m tests.bench.policy_check

bench-revoke: $(STAMP) ## Roll back a version with 1 and with 1 000 000 live credentials, some minutes
	@$(BIN)/python -m tests.bench.revoke_million

bench-memory: $(STAMP) ## Bytes a live credential takes in the store, Valkey and Redis
	@$(BIN)/python -m tests.bench.store_memory

fuzz: $(STAMP) $(FUZZ_STAMP) ## schemathesis against a running broker, about two minutes; no 5xx allowed
	@$(BIN)/python tests/fuzz/run.py --schemathesis .venv-fuzz/bin/schemathesis

soundness: $(STAMP) ## Attack what is claimed about schemas with half a million values by chance, some minutes
	@$(BIN)/python -m tests.soundness

lock: $(STAMP) ## Resolve the locks again, after a change of dependencies
	$(LOCK) --extra server --extra gate --extra fastmcp --extra dev pyproject.toml -o requirements.lock
	$(LOCK) --extra server pyproject.toml -c requirements.lock -o deploy/requirements.lock
	$(LOCK) deploy/build.in -c requirements.lock -o deploy/build.lock
	$(LOCK) tests/fuzz/requirements.in -o tests/fuzz/requirements.lock

# The stamp is newer than the lock: made once, and again when the lock has changed.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (once, and when requirements.lock changes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(FUZZ_STAMP): tests/fuzz/requirements.lock
	@test -x .venv-fuzz/bin/python || $(PYTHON) -m venv .venv-fuzz
	@echo "installing into .venv-fuzz (once, and when tests/fuzz/requirements.lock changes)"
	@.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# The shipped policy holds no keys; the trial's copy gets its own, once.
$(TRIAL)/policies/trust.yaml: $(STAMP) $(shell find policies -type f)
	@mkdir -p -m 700 $(TRIAL)
	@cp -R policies $(TRIAL)/
	@for name in $$(sed -n 's|.*file: keys/\([^}]*\)\.json.*|\1|p' policies/trust.yaml); do \
	    test -e $(TRIAL)/policies/keys/$$name.pem || $(BIN)/broker keygen --out $(TRIAL)/policies/keys $$name >/dev/null || exit 1; \
	done
	@touch $@
