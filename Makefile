# Each target does its own set-up; a fresh machine needs Python >= 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Packages of real servers that the tests run against, where root may install them.
SERVERS := prometheus prometheus-alertmanager
BROWSER := chromium

.PHONY: help venv servers demo test test-real test-image lint bench sbom clean

help:
	@echo "make demo       the sidecar beside a simulated runtime, for a minute"
	@echo "make test       lint and every test that needs no heavy download"
	@echo "make test-real  the tests against real runtimes (downloads gigabytes)"
	@echo "make test-image builds the image and runs it as Kubernetes would (root, Debian)"
	@echo "make lint       ruff, mypy, import rules"
	@echo "make bench      benchmarks, into benchmarks/RESULTS.md"

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name it: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { echo "python venv is missing: install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,nvml,otlp,keda,rules]'
	@touch $@

servers: venv
	@sh tests/servers.sh $(SERVERS) $(BROWSER)
	@sh tests/deploy/tools.sh $(BIN)

demo: venv
	$(BIN)/inference-sidecar demo --for 60s

test: venv servers lint
	$(BIN)/python -m pytest -n 2 -m "not real" tests

test-real: venv servers
	$(BIN)/python -m pytest -m real -s tests

test-image: venv
	@sh tests/deploy/image.sh

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: venv
	@sh tests/servers.sh prometheus victoria-metrics
	$(BIN)/python -m benchmarks

# What an installation holds, as CycloneDX: from the packages that the image installs, at the pinned versions.
sbom:
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/pip install --quiet --disable-pip-version-check -c constraints.txt '.[nvml,otlp,keda,web,rules]'
	mkdir -p dist && build/sbom/bin/pip freeze --exclude pip --exclude setuptools > build/sbom/packages.txt
	sed -i '/^inference-sidecar/d' build/sbom/packages.txt
	build/sbom/bin/pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=5,<8'
	build/sbom/bin/cyclonedx-py requirements build/sbom/packages.txt --pyproject pyproject.toml -o dist/sbom.cdx.json

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
