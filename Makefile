# Everything that is done with this tree, by one word each; `make help` lists them. Meson does the building.
# Packages that are missing are installed first, by scripts/install-deps (Debian; sudo where not root).

BUILD ?= build
TRAINED ?= build-trained
BENCH ?= build-bench
PREFIX ?= /usr/local
PYTHON ?= /usr/bin/python3
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 3600
PYTORCH ?= 2.13.0
WHEEL_PYTORCH ?= 2.13.0 2.14.1 2.15.0
MAKEFLAGS += --no-print-directory
# Compiled in two fifths of the time that debugoptimized takes; the tests take a tenth more.
SANITIZED = -Doptimization=1 -Ddebug=true -Dc_args=-g1 -Db_lundef=false
# Tests compute longer then, and fewer should run at once.
FEWER = --num-processes $$(($$(nproc) + 1))

.PHONY: build build-asan build-tsan help demo check test hooks bench bench-lab bench-collectives bench-switches bench-sparse bench-steps soak fuzz lint test-asan test-tsan test-pytorch test-integrations test-packages test-distributions install install-python uninstall wheel site deb dist clean

build: ## build the command, the library and the tests into build/ (default)
	@scripts/install-deps build
	@scripts/build $(BUILD)

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

demo: ## train on Fashion-MNIST with four ranks
	@scripts/install-deps build demo
	@scripts/build $(BUILD)
	@BANYAN=$(BUILD)/banyan examples/demo.sh $(BUILD)

check: ## run the tests that neither wait nor need privileges, with a part of the random cases (2 minutes)
	@scripts/install-deps build check
	@scripts/configure $(BUILD)
	@REBUILD=1 BANYAN_TEST_SHARE=7 scripts/run-tests $(BUILD) --suite unit --suite golden --suite fuzz --suite prop --suite sim

test: ## run all tests (T="NAME ...": build and run only these)
ifdef T
	@scripts/install-deps build test
	@scripts/configure $(BUILD)
	@REBUILD=1 scripts/run-tests $(BUILD) $(T)
else
	@scripts/install-deps build test demo
	@scripts/build $(BUILD)
	@scripts/run-tests $(BUILD)
endif

build-asan: # of AddressSanitizer and UBSan
	@scripts/install-deps build test demo
	@scripts/build build-asan -Db_sanitize=address,undefined $(SANITIZED)

build-tsan: # of ThreadSanitizer
	@scripts/install-deps build test demo
	@scripts/build build-tsan -Db_sanitize=thread $(SANITIZED)

test-asan: build-asan ## the same under AddressSanitizer and UBSan, in build-asan/ (WITHOUT="e2e ...": without these suites)
	@scripts/run-tests build-asan --timeout-multiplier 4 $(FEWER) $(addprefix --no-suite ,$(WITHOUT))

test-tsan: build-tsan ## those with threads under ThreadSanitizer, in build-tsan/ (WITHOUT="e2e ...": without these suites)
	@scripts/run-tests build-tsan --timeout-multiplier 6 $(FEWER) $(addprefix --no-suite ,$(WITHOUT))

test-pytorch: ## test the Python package with PyTorch 2.13.0 of PyPI (PYTORCH=2.14.1: another one), in build/pytorch-VERSION
	@scripts/install-deps build pytorch demo
	@scripts/build $(BUILD)
	@PYTHON=$(PYTHON) scripts/test-pytorch $(BUILD) $(PYTORCH)

test-integrations: ## test under schedulers and with programs that are installed here, as root (apt-get install slurmd slurmctld munge ...; 2 minutes)
	@scripts/install-deps build pytorch
	@scripts/build $(BUILD)
	@scripts/test-integrations $(BUILD)

lint: ## format, layers, names, warnings of gcc and clang, clang-tidy, cppcheck, shellcheck, pyflakes, mypy (FAST=1: what needs no build)
	@scripts/install-deps build demo lint
	@FAST=$(FAST) scripts/lint

hooks: ## have git check format, layers, names and the subject of each commit (2 seconds)
	@scripts/install-deps lint
	@for hook in pre-commit commit-msg; do ln -sf "$(CURDIR)/scripts/$$hook" "$$(git rev-parse --git-path hooks)/$$hook"; done

bench: ## time AllReduce, as installed, beside other libraries (QUICK=1: two minutes)
	@scripts/install-deps build bench
	@scripts/build-trained $(TRAINED)
	@BANYAN=$(TRAINED)/banyan bench/run.sh

bench-lab: ## the same on networks built by `banyan lab` (as root; 15 minutes)
	@scripts/install-deps build bench
	@scripts/build $(BENCH) -Dacross_files=true
	@BANYAN=$(BENCH)/banyan bench/lab.sh

bench-collectives: ## time the other collectives and steps of sharded training there (as root; 40 minutes)
	@scripts/install-deps build bench
	@scripts/build $(BENCH) -Dacross_files=true
	@BANYAN=$(BENCH)/banyan bench/lab.sh collectives

bench-switches: ## time sums through switches that add, in labs (as root; 20 minutes)
	@scripts/install-deps build bench
	@scripts/build $(BENCH) -Dacross_files=true
	@BANYAN=$(BENCH)/banyan bench/switches.sh

bench-sparse: ## time sparse AllReduce, every way, and beside PyTorch over Gloo (2 minutes)
	@scripts/install-deps build bench
	@scripts/build $(BENCH) -Dacross_files=true
	@ninja -C $(BENCH) sparse_bench >/dev/null
	@BUILD=$(BENCH) bench/sparse.sh

bench-cluster: ## time jobs under a manager, faults, switches, classes and a thousand agents (as root; PARTS=...; 20 minutes)
	@scripts/install-deps build bench
	@scripts/build $(BENCH) -Dacross_files=true
	@ninja -C $(BENCH) priority_bench cluster_bench tests/net/sum_calls >/dev/null
	@BANYAN=$(BENCH)/banyan bench/cluster.sh

bench-steps: ## time steps of models: gradients by name, one by one and all at once (5 minutes; links of a lab as root)
	@scripts/install-deps build bench
	@scripts/build $(BENCH) -Dacross_files=true
	@ninja -C $(BENCH) step_bench >/dev/null
	@BUILD=$(BENCH) bench/steps.sh

fuzz: ## run each fuzzer for FUZZ_SECONDS (60), in build-fuzz/
	@scripts/install-deps build fuzz
	@CC=clang scripts/build build-fuzz -Dfuzzing=true -Db_sanitize=address,undefined -Dbuildtype=debugoptimized -Db_lundef=false
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS)

soak: ## kill 1000 members of elastic groups; train 50,000 steps and make 10,000 groups; attack a job's ports 10,000 times; repeat the tests for SOAK_SECONDS (3600), with other random numbers, and those of the commands under the sanitizers; as root also kill a cluster's services for 10 minutes
	@scripts/install-deps build test demo
	@scripts/build $(BUILD)
	@ninja -C $(BUILD) tests/net/sum_calls tests/net/test_job_recovery_soak >/dev/null
	@$(MAKE) test-pytorch test-integrations
	@scripts/soak-elastic $(BUILD)
	@if [ "$$(id -u)" = 0 ]; then ninja -C $(BUILD) tests/net/attack tests/net/alter_packets tests/net/forge_fragments tests/net/sum_elastic tests/net/sum_until >/dev/null && \
	  scripts/soak-attacks $(BUILD); fi
	@scripts/soak $(BUILD) $(SOAK_SECONDS)
	@$(MAKE) test-asan test-tsan WITHOUT="unit golden prop sim fuzz net"
	@if [ "$$(id -u)" = 0 ]; then PARTS=soak BANYAN=$(BUILD)/banyan bench/cluster.sh; else \
	  echo "soak: the cluster's part needs root's rights, and is left out" >&2; fi

install: ## build once more, trained on this machine, and install below PREFIX (/usr/local), or DESTDIR/PREFIX
	@scripts/install-deps build
	@scripts/build-trained $(TRAINED)
	@meson configure $(TRAINED) -Dprefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) meson install -C $(TRAINED)
	@if [ -z "$(DESTDIR)" ]; then ldconfig; fi

install-python: ## install the package banyan for PYTHON (/usr/bin/python3), over the installed library; PREFIX as for install
	@scripts/install-deps python
	@BANYAN_SYSTEM_LIBRARY=1 $(PYTHON) -m pip install --no-build-isolation --no-deps --break-system-packages --no-warn-script-location \
	  $(if $(DESTDIR),--root $(DESTDIR)) $(if $(filter /usr/local,$(PREFIX)),,--prefix $(PREFIX)) .

uninstall: ## remove what `make install` and `make install-python` installed
	@if [ -f $(TRAINED)/meson-logs/install-log.txt ]; then ninja -C $(TRAINED) uninstall; else \
	  echo "uninstall: $(TRAINED) has no list of what was installed; 'make install' makes one" >&2; exit 1; fi
	@if [ -z "$(DESTDIR)" ]; then ldconfig; fi
	@$(PYTHON) -m pip uninstall -y --break-system-packages banyan-allreduce 2>/dev/null || true

wheel: ## make a wheel and a source package of the Python package in build-wheel/packages, compiled for each PyTorch of WHEEL_PYTORCH and each Python of WHEEL_PYTHONS
	@scripts/install-deps build wheel
	@PYTHON=$(PYTHON) scripts/build-wheel build-wheel $(WHEEL_PYTORCH)

site: ## make the documentation as a site in build/site/html, and check it in Chromium (a minute)
	@scripts/install-deps site
	@scripts/site $(BUILD)/site

deb: ## make Debian's packages in build-deb/
	@scripts/install-deps build deb
	@scripts/build-deb build-deb

dist: ## write an archive of the committed sources and its checksum into build-dist/
	@mkdir -p build-dist
	@set -e; name=banyan-$$(sed -n "s/.*version: '\([0-9.]*\)',/\1/p" meson.build | head -n 1); \
	  git archive --prefix=$$name/ HEAD | gzip -n9 >build-dist/$$name.tar.gz; \
	  cd build-dist && sha256sum $$name.tar.gz | tee $$name.tar.gz.sha256

test-distributions: ## build with all compilers of clean Debian systems and run `make check` there (as root; 2 hours)
	@scripts/install-deps test-packages
	@scripts/test-distributions

test-packages: ## install both in clean Debian systems and use them there (as root, after make wheel deb; 20 minutes)
	@scripts/install-deps test-packages
	@scripts/test-packages build-wheel/packages build-deb

clean: ## remove everything that was built
	rm -rf $(BUILD) $(TRAINED) $(BENCH) build-asan build-tsan build-fuzz build-gcc build-clang build-wheel build-deb build-dist build-python
