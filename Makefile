# Two commands do it all on a fresh machine:
#   make lab    builds, runs every experiment, prints the table, writes report/lab.html
#   make test   all tests, lints and documentation
# For daily work, make check: formatting, lints, unit tests and tests of properties; no guest, no root, no browser.
# Both install what is missing when root, else they name the packages.

CARGO ?= cargo
PYTHON_ENV := target/python

.PHONY: wheel sdist python rules build lab lab-full results fidelity predictions truth mended dom0 reference pictures test check prove fmt lint unit docs bench fuzz fuzz-keep soak churn scheduler-wide need-build need-bpf need-guest need-xen need-xen-build need-libvirt need-systemd need-test man clean

# Only the programs: lowtail, and the stand-in for a VM that the README starts.
build: need-build need-bpf
	$(CARGO) build --release --locked -p lowtail -p lowtail-standin

lab: need-build need-bpf
	$(CARGO) build --release --locked -p lowtail
	@mkdir -p report
	target/release/lowtail lab run --all --report report/lab.html

# The longer form of every experiment: more samples, steadier tails.
lab-full: need-build need-bpf
	$(CARGO) build --release --locked -p lowtail
	@mkdir -p report
	target/release/lowtail lab run --all --full --report report/lab-full.html

# The tables of docs/results.md and docs/claims.md (ten seeds: a quarter of an hour), of which tests compare all and some with a run,
# and the pictures of the README.
results: need-build need-bpf
	$(CARGO) build --release --locked -p lowtail
	target/release/lowtail lab run --all --no-report --quiet --markdown docs/results.md
	target/release/lowtail lab run --all --seeds 10 --no-report --quiet --claims docs/claims.md
	target/release/lowtail lab run small-first-ratelimit --no-report --quiet --chart docs/pictures/small-first-ratelimit.svg \
		--case "random, mean 1000us, alone" --case "random, mean 1000us, small-first" \
		--case "random, mean 1000us, credit2 4.8.1, limit 1000us" --case "random, mean 1000us, credit2 4.21, limit 1000us" \
		--case "random, mean 1000us, credit2 4.8.1, limit 0us"
	target/release/lowtail lab run small-first-frontier --no-report --quiet --chart docs/pictures/small-first-frontier.svg

# docs/fidelity.md and its pictures, from the reports that are kept in docs/fidelity; a test compares them.
fidelity: need-build need-bpf
	$(CARGO) build --release --locked -p lowtail
	cd docs && ../target/release/lowtail lab fidelity fidelity/*.json --causes fidelity-causes.toml --pictures pictures >fidelity.md.new
	mv docs/fidelity.md.new docs/fidelity.md

# The reports themselves: random scenarios on real kernels and a real Xen, beside the simulator. Four hours on two cores, with
# nothing else on them: some 35 minutes for each kernel, 25 for small-first, 10 for this host's, 12 for networks on each kernel, 45 for Xen. Shorter with
# SCENARIOS=20 SMALL_FIRST=20 HOST_SCENARIOS=10 NETWORKS=10 XEN_SCENARIOS=4 (half an hour), other scenarios with SEED=5. This host plays two CPUs, if we are root and it has as many.
# A report is written when its check is complete; after an error the others stay as they are. If a machine hangs, its report says which
# scenarios are missing, and this ends with an error: `make fidelity` then makes the page. It also ends with an error if
# docs/fidelity-causes.toml has causes of figures that are not there any more: remove them, then `make fidelity`.
# Random hosts in guests: predicted, then really changed. A host takes two minutes.
predictions: export LOWTAIL_GUEST_HOME = $(abspath target/guest)
predictions: export LOWTAIL_SEED = $(or $(SEED),1)
predictions: export LOWTAIL_PREDICT_HOSTS = $(or $(HOSTS),40)
predictions: export LOWTAIL_PREDICT_CPUS = $(or $(CPUS),1)
predictions: export LOWTAIL_PREDICT_TABLE = $(or $(TABLE),$(abspath docs/predictions.md))
predictions: need-test
	$(CARGO) test --locked -p lowtail --features libvirt --test predict -- --nocapture

truth: export LOWTAIL_GUEST_HOME = $(abspath target/guest)
truth: need-build need-bpf need-xen
	$(CARGO) build --release --locked -p lowtail
	@mkdir -p docs/fidelity
	@set -e; check() { \
		echo "lowtail lab check $$*" >&2; \
		target/release/lowtail lab check --seed $(or $(SEED),40417) "$$@"; echo; \
	}; \
	for series in 6.1 6.12 6.18; do \
		check --on guest=$$series --starts $(or $(STARTS),4) --starts-max $(or $(STARTS_MAX),16) --scenarios $(or $(SCENARIOS),200) --report docs/fidelity/linux-$$series.json; \
	done; \
	if [ "$$(id -u)" = 0 ] && [ "$$(nproc)" -ge 2 ]; then \
		check --on kernel --scenarios $(or $(HOST_SCENARIOS),40) --report docs/fidelity/linux-host.json; \
	else \
		echo "not on this host's kernel: that needs root and two CPUs" >&2; \
	fi; \
	for series in 6.1 6.12 6.18; do \
		check --on guest=$$series --networks --scenarios $(or $(NETWORKS),60) --report docs/fidelity/networks-$$series.json; \
	done; \
	check --on guest=6.18 --small-first --scenarios $(or $(SMALL_FIRST),200) --report docs/fidelity/small-first-6.18.json; \
	check --on xen=4.20 --scenarios $(or $(XEN_SCENARIOS),60) --report docs/fidelity/xen-4.20.json
	@$(MAKE) --no-print-directory fidelity
	@sed -n '/^| system /,/^$$/p' docs/fidelity.md

# A Xen with the patches of patches/xen beside the same Xen without: both built from Debian's source, booted, and compared. An hour on two
# cores. SERIES=4.20 where Debian's mirror has that source.
mended: export LOWTAIL_XEN_SERIES = $(or $(SERIES),4.17)
mended: need-xen need-xen-build
	$(CARGO) test --locked -p lowtail --features libvirt --test mended -- --ignored --nocapture

# lowtail in the dom0 of a real Xen, emulated: a boot of eight minutes and one of sixteen, which `make test` has no time for.
dom0: need-xen need-test
	$(CARGO) test --locked -p lowtail --features libvirt --test xen --test xen_predict -- --ignored --nocapture

# The screen of `host observe` as a picture, from a run on this host; needs root.
pictures: need-build need-bpf
	$(CARGO) build --release --locked -p lowtail -p lowtail-standin
	scripts/pictures

test: need-test fmt lint unit python rules docs prove

# Alerts and recording rules for Prometheus.
rules:
	promtool=$$(scripts/promtool) && "$$promtool" test rules docs/prometheus/lowtail.test.yml

# Tests of properties that need neither root nor a guest; built as for `unit`, so that nothing is built twice.
QUICK := allocations credit fair hostile io netback netback_allocations null schedulers small_first net net_allocations pcapng queues queues_allocations lab \
	latency linux linux_damage mutation bad_input capture replay policy outputs attack

# Words that the glossary retires or lacks, and documents whose links or commands are wrong.
WORDS := glossary:: keys:: reference:: book::links:: book::commands:: book::blocks::

check: need-build need-bpf fmt lint
	$(CARGO) test --workspace --locked --features lowtail/libvirt --lib --bins
	$(CARGO) test --workspace --locked --features lowtail/libvirt $(addprefix --test ,$(QUICK))
	$(CARGO) test --workspace --locked --features lowtail/libvirt --test cli -- $(WORDS)

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked --features lowtail/libvirt -- -D warnings

# Tests of figures are tried again if a hypervisor took CPU time meanwhile; the run ends with what was tried how often.
unit: need-test
	@rm -f target/tries
	LOWTAIL_TRIES=$(abspath target/tries) LOWTAIL_PERFETTO_PYTHON=$(abspath $(PYTHON_ENV))/bin/python \
	LOWTAIL_PARQUET_PYTHON=$(abspath $(PYTHON_ENV))/bin/python \
	$(CARGO) test --workspace --locked --features lowtail/libvirt --no-fail-fast; \
	code=$$?; scripts/tries target/tries; exit $$code

# What is proved about the policy headers, by CBMC: two minutes each at most.
prove: need-build
	policy/proofs/run

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --features lowtail/libvirt
	scripts/book

# Pages of docs/reference that are written from the program, which a test compares.
reference: need-build need-bpf
	LOWTAIL_WRITE_REFERENCE=1 $(CARGO) test --locked -p lowtail --features libvirt --test cli reference

# Budgets stand beside each benchmark; compare ratios within one run.
bench: need-bpf
	$(CARGO) bench --workspace --locked

# Fuzzing of every reader, one after the other, for SECONDS each, or of TARGET alone; needs cargo-fuzz and a nightly toolchain. What is
# new is kept below target/fuzz; `make fuzz-keep TARGET=…` takes what adds to the corpus of the tree.
fuzz:
	scripts/fuzz $(or $(SECONDS),60) $(TARGET)

# Half an hour of VMs that come and go, beside a hostile scraper and programs that call themselves VMs.
soak: need-test
	LOWTAIL_SOAK_SECONDS=$(or $(SECONDS),1800) $(CARGO) test --locked -p lowtail --features libvirt --test soak -- --nocapture

# Ten minutes, by a guest's clock, of VMs that come, are pinned anew and go under small-first, on one CPU and on eight; two hours of ours.
churn: need-test
	LOWTAIL_CHURN_SECONDS=$(or $(SECONDS),600) $(CARGO) test --locked -p lowtail --features libvirt --test churn -- --nocapture --test-threads 2

# The scheduler's tests of limits, pins and quiet servers again, in guests of 8 and 16 CPUs: half an hour.
scheduler-wide: need-test
	$(CARGO) build --locked -p lowtail-control --example guest_scheduler
	$(CARGO) test --locked -p lowtail-control --test scheduler -- --ignored --nocapture --test-threads 2

fuzz-keep:
	@[ -n "$(TARGET)" ] || { echo "which one? make fuzz-keep TARGET=ledger" >&2; exit 2; }
	cd fuzz && $(CARGO) +nightly fuzz cmin --fuzz-dir . $(TARGET)

# The Python package: one wheel for Python 3.9 and later, with the command in it, below target/wheels. PROFILE=dev has the command that the tests have.
PROFILE ?= release
wheel: WORK = target/wheels/work
wheel: need-build need-bpf $(PYTHON_ENV)/ready
	$(CARGO) $(if $(filter dev,$(PROFILE)),test --no-run --workspace --locked --features lowtail/libvirt,build --profile $(PROFILE) --locked -p lowtail)
	@rm -rf target/wheels/*.whl $(WORK)
	$(PYTHON_ENV)/bin/maturin build --profile $(PROFILE) --locked --quiet --out $(WORK)
	@cd $(WORK) && ../../../$(PYTHON_ENV)/bin/wheel unpack *.whl >/dev/null
	@set -e; for package in $(WORK)/lowtail-*/; do \
		scripts=$$package/$$(basename $$package).data/scripts; mkdir -p $$scripts; \
		strip -o $$scripts/lowtail target/$(subst dev,debug,$(PROFILE))/lowtail; \
		$(PYTHON_ENV)/bin/wheel pack --dest-dir target/wheels $$package; \
	done
	@rm -rf $(WORK)

# Its source, for who has Rust and another machine.
sdist: $(PYTHON_ENV)/ready
	$(PYTHON_ENV)/bin/maturin sdist --out target/wheels

# The package's tests, in a Python that has the wheel, and no Rust on its path. As `unit` builds, so that little is built twice.
python: PROFILE = dev
python: wheel
	python3 -m venv --clear target/python-clean
	target/python-clean/bin/pip install --quiet --disable-pip-version-check target/wheels/*.whl -r scripts/python-package-requirements.txt
	cd crates/python/tests && env -i HOME="$$HOME" PATH=/usr/bin:/bin ../../../target/python-clean/bin/python -m pytest -q -rs -p no:cacheprovider --durations 5

man: need-build need-bpf
	$(CARGO) build --release --locked -p lowtail
	@mkdir -p target/man
	target/release/lowtail man target/man

need-build:
	@scripts/need cc=gcc cargo=cargo

# Chromium shows the report as a reader sees it; tshark reads frames; Python has Perfetto's own schema, and pandas, Polars and DuckDB, which read Parquet files; clang and
# libbpf put programs into the kernel; ip and nsenter make hosts of namespaces; QEMU boots a kernel of a known version.
need-test: need-build need-bpf need-guest need-xen need-systemd need-libvirt $(PYTHON_ENV)/ready
	@scripts/need chromium=chromium tshark=tshark ip=iproute2 ss=iproute2 nsenter=util-linux sysctl=procps perf=linux-perf nft=nftables iptables-save=iptables setpriv=util-linux systemd-analyze=systemd

need-bpf: need-build
	@scripts/need clang-16=clang-16 make=make pkg-config=pkg-config
	@[ -e /usr/include/bpf/bpf_helpers.h ] || scripts/need no-such-command=libbpf-dev

# Real kernels in a machine whose clock counts instructions: that of most tests, and Debian 13's and 12's own.
need-guest:
	@scripts/need qemu-system-x86_64=qemu-system-x86 busybox=busybox-static cpio=cpio strip=binutils unxz=xz-utils
	@for series in 6.18 6.12 6.1; do LOWTAIL_GUEST_SERIES=$$series scripts/guest kernel >/dev/null || exit 1; done
	@scripts/guest emulator >/dev/null

# Debian 13's Xen, with dom0 and guests, for such a machine.
need-xen: need-guest
	@scripts/need zstd=zstd xz=xz-utils
	@scripts/xen unpack >/dev/null

# What builds that Xen's hypervisor from its source.
need-xen-build: need-build
	@scripts/need make=make flex=flex bison=bison python3=python3 patch=patch xz=xz-utils dpkg-source=dpkg-dev

# The first process of a guest that shows what the unit in dist/ does.
need-systemd:
	@scripts/systemd >/dev/null

# A libvirtd that tests start for themselves. These packages start none: that is for libvirt-daemon-system.
need-libvirt:
	@scripts/need libvirtd=libvirt-daemon virsh=libvirt-clients setpriv=util-linux
	@ls /usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so >/dev/null 2>&1 || scripts/need no-such-command=libvirt-daemon-driver-qemu

$(PYTHON_ENV)/ready: scripts/python-requirements.txt
	@scripts/need python3=python3
	@python3 -c 'import ensurepip' 2>/dev/null || scripts/need no-such-command=python3-venv
	python3 -m venv --clear $(PYTHON_ENV)
	$(PYTHON_ENV)/bin/pip install --quiet --disable-pip-version-check -r scripts/python-requirements.txt
	@touch $@

clean:
	$(CARGO) clean
	rm -rf report
