# Hawk's build. `make help` lists the targets.
#
# B is the build directory: B=build/mine keeps a second build apart (of another branch, say).
# SANITIZE=address,undefined or SANITIZE=thread builds with sanitizers, in a directory of its own.
# ROOMS="base msg worker" builds only those folders, to test one while others do not compile.

# --- what there is ---------------------------------------------------------------------------------

ROOMS ?= base msg template owner peers classifier stealer central dist worker bus net exec store libhawk cli ca replay config api workload sim faults runas daemon
comma := ,
ifdef SANITIZE
B ?= build/san-$(subst $(comma),-,$(SANITIZE))
else
B ?= build
endif

# guard_calls.c stands in for calls of the C library: programs that have a server link with it, no library holds it.
guard := $(if $(filter net,$(ROOMS)),net/guard_calls.c)
guard_object := $(guard:%.c=$(B)/obj/%.o)
sources := $(filter-out daemon/main.c daemon/hawk_runner.c net/guard_calls.c runas/hawk_run_as.c,$(wildcard $(ROOMS:=/*.c)))
objects := $(sources:%.c=$(B)/obj/%.o)
# main.c wires every role, so there is a binary only where all rooms are built.
main := $(if $(filter daemon,$(ROOMS)),$(wildcard daemon/main.c))
binary := $(if $(main),$(B)/hawk)
helper := $(if $(filter runas,$(ROOMS)),$(B)/hawk-run-as $(if $(binary),$(B)/hawk-runner))
main_object := $(main:%.c=$(B)/obj/%.o)
archive := $(B)/libhawk-all.a

protos := $(wildcard protos/*.proto)
gen_sources := $(protos:protos/%.proto=$(B)/gen/%.pb.c)
gen_objects := $(gen_sources:.c=.o)

# tests/test_NAME.c is one cmocka program; tests/lib/*.c is linked to each of them;
# tests/e2e/test_NAME.{sh,py} is a script that runs $HAWK. T=NAME selects one.
T ?= *
test_sources := $(wildcard tests/test_$(T).c)
test_programs := $(test_sources:%.c=$(B)/%)
test_lib_sources := $(wildcard tests/lib/*.c)
test_archive := $(B)/libtest.a
test_lib_objects := $(test_lib_sources:%.c=$(B)/obj/%.o)
test_scripts := $(wildcard tests/e2e/test_$(T).sh tests/e2e/test_$(T).py)
# tests/fuzz/fuzz_NAME.c is one libFuzzer target; as a test it replays its seed corpus, tests/fuzz/corpus/NAME.tar.xz.
fuzz_sources := $(wildcard tests/fuzz/$(T).c)
fuzz_replays := $(fuzz_sources:tests/fuzz/%.c=$(B)/tests/%)
fuzz_seeds := $(fuzz_sources:tests/fuzz/fuzz_%.c=$(B)/seeds/%)
fuzz_lib_sources := $(wildcard tests/fuzz/lib/*.c)

bench_sources := $(wildcard bench/bench_*.c bench/poisson_client.c)
bench_programs := $(bench_sources:%.c=$(B)/%)
bench_lib_sources := $(wildcard bench/lib/*.c)
bench_archive := $(B)/libbench.a

all_sources := $(sources) $(guard) daemon/main.c daemon/hawk_runner.c runas/hawk_run_as.c packaging/tarball/launcher.c $(test_sources) $(test_lib_sources) $(fuzz_sources) $(fuzz_lib_sources) \
	$(bench_sources) $(bench_lib_sources)
own_files := $(wildcard $(ROOMS:=/*.[ch]) tests/*.[ch] tests/lib/*.[ch] tests/fuzz/*.[ch] tests/fuzz/lib/*.[ch] bench/*.[ch] bench/lib/*.[ch] bench/peers/*.[ch] examples/*.c packaging/tarball/*.c)

# --- how it is compiled ----------------------------------------------------------------------------

CC = gcc
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wmissing-declarations -Wpointer-arith -Wvla -Wundef -Wformat=2 -Wwrite-strings -Wlogical-op \
	-Wduplicated-cond -Wduplicated-branches -Wredundant-decls -Wdate-time -Wno-unused-parameter
# Not-used parameters are normal in handlers called through a table, hence the exception above.
LANGUAGE := -std=gnu11 -D_GNU_SOURCE -I. -I$(B)/gen -fno-common -fstack-protector-strong -pthread
LIBS := -Wl,--as-needed -lgrpc -lgpr -lssl -lcrypto -lev -lprotobuf-nanopb -lyaml -ljansson -lsqlite3 -lm -lpthread
# gRPC and what it stands on are 46 libraries, which take longer to load than most commands take to run. So hawk has them
# inside. `make GRPC=shared`: it loads them, and so gets their updates without being built anew.
GRPC ?= archive
ifneq ($(GRPC),shared)
grpc_archives = $(filter-out -lssl -lcrypto -lz -lm -lrt -lpthread -ldl -latomic,$(shell pkg-config --static --libs-only-l grpc))
GRPC_LIBS = -Wl,-Bstatic -Wl,--start-group $(grpc_archives) -Wl,--end-group -Wl,-Bdynamic -Wl,--as-needed -lz -latomic -lstdc++
endif
ifdef SANITIZE
# Sanitizers' own checks confuse gcc 12's flow analysis into false "may be used uninitialized". At a fixed address a
# program starts in three quarters of the time.
SANITIZERS := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1 -fno-pie -no-pie \
	-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-stringop-truncation -Wno-format-truncation
endif
# What is shipped or measured is optimized as a whole when it is linked, which saves daemons and simulator a tenth of
# their time. Tests are not, hence machine code in the objects as well. `make LTO=`: nothing is, and links are quick.
LTO := $(if $(SANITIZE)$(filter clang%,$(CC)),,-flto=auto -ffat-lto-objects)
compile = $(CC) $(LANGUAGE) $(CFLAGS) $(SANITIZERS) $(LTO) -MMD -MP
link = $(CC) $(CFLAGS) $(SANITIZERS) $(if $(LTO),-fno-lto) $(LDFLAGS)
link_whole = $(CC) $(CFLAGS) $(SANITIZERS) $(LTO) $(LDFLAGS)

# Two jobs at least: waiting on the disk is cheap. An explicit -j wins.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(JOBS)
endif
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.SUFFIXES:
# V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),@:,@printf '%-7s %s\n' $(1) $(2))

.PHONY: all archive programs test test-all test-load test-flood fuzz fuzz-build fuzz-programs proof check check-format check-python check-build check-tidy check-structure deps format demo figures \
	bench bench-bar bench-bursts bench-bus bench-codec bench-commands bench-deps bench-failover bench-heartbeats bench-idle bench-mixed bench-noop bench-outage bench-pause \
	bench-poisson bench-policy bench-price bench-python bench-recovery bench-signed bench-sim \
	bench-takeover bench-wire calibrate swarm mutate clean help install install-files uninstall man completions deb test-deb tarball test-tarball \
	python soak wheel FORCE
all: $(if $(binary),$(binary) $(B)/libhawk.a,archive) $(helper)
archive: $(archive)

# --- packages --------------------------------------------------------------------------------------

deps:
	$(Q)tools/deps
# The same, once per build directory and change of the list.
$(B)/deps.stamp: tools/packages.txt tools/deps
	$(Q)tools/deps
	$(Q)mkdir -p $(@D) && touch $@

# --- objects ---------------------------------------------------------------------------------------

# Rewritten only when its text changes, so that other flags, or a source that went away, rebuild.
define remember
	$(Q)mkdir -p $(@D) && echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@
endef
$(B)/flags.list: FORCE
	$(call remember,$(compile) $(WARNINGS))
$(B)/objects.list: FORCE
	$(call remember,$(objects) $(gen_objects))

# An unmatched line in an .options file is an error: the limit it sets would silently not hold.
$(B)/gen/%.pb.c $(B)/gen/%.pb.h: protos/%.proto $(wildcard protos/*.options) | $(B)/deps.stamp
	$(call say,NANOPB,$<)
	$(Q)mkdir -p $(@D)
	$(Q)protoc -Iprotos --nanopb_opt=-Iprotos,--error-on-unmatched --nanopb_out=$(B)/gen $<
$(B)/gen/%.pb.o: $(B)/gen/%.pb.c $(B)/flags.list | $(gen_sources)
	$(call say,CC,$<)
	$(Q)$(compile) -w -c -o $@ $<

# Libraries that are loaded where they are used (net/supervisor.c, daemon/metrics.c): not -l, but the files' names.
late := systemd microhttpd
$(B)/gen/net/sonames.h: | $(B)/deps.stamp
	$(Q)mkdir -p $(@D)
	$(Q)for name in $(late); do \
		soname=$$(objdump -p $$($(CC) -print-file-name=lib$$name.so) | sed -n 's/^ *SONAME *//p'); \
		echo "#define SONAME_$$(echo $$name | tr a-z A-Z) \"$${soname:?of lib$$name.so}\""; done >$@.new
	$(Q)mv $@.new $@

$(B)/obj/%.o: %.c $(B)/flags.list | $(B)/deps.stamp $(gen_sources) $(B)/gen/net/sonames.h
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(compile) $(WARNINGS) -c -o $@ $<

# The assembler includes these, which gcc -MMD does not see, nor its link-time optimizer.
$(B)/obj/workload/generate_table.o: $(wildcard workload/tables/*.tbl)
$(B)/obj/workload/generate_table.o: LTO :=

# Made anew each time: ar would keep the members of deleted sources.
$(archive): $(objects) $(gen_objects) $(B)/objects.list
	$(Q)rm -f $@ && ar rcs $@ $(objects) $(gen_objects)
$(test_archive): $(test_lib_objects)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/grpc.list: FORCE
	$(call remember,$(GRPC))
$(B)/hawk: $(main_object) $(guard_object) $(archive) $(B)/grpc.list
	$(call say,LINK,$@)
	$(Q)$(link_whole) -o $@ $(filter-out %.list,$^) $(GRPC_LIBS) $(LIBS)

# Of three files and the C library alone: it is installed setuid root.
$(B)/hawk-run-as: $(B)/obj/runas/hawk_run_as.o $(B)/obj/runas/config.o $(B)/obj/runas/limits.o
	$(call say,LINK,$@)
	$(Q)$(link) -Wl,-z,relro,-z,now -o $@ $^

# Of the C library and of what verifies signatures alone, so that it starts in no time.
$(B)/hawk-runner: $(B)/obj/daemon/hawk_runner.o $(archive)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ -lcrypto

# What programs link with: one object that shows no names but those of its header.
library_names = $(shell sed -n 's/^[a-z].*[ *]\(hawk_[a-z_]*\)\x28.*/\1/p' libhawk/hawk.h)
$(B)/libhawk.a: $(archive) libhawk/hawk.h
	$(call say,LIB,$@)
	$(Q)ld -r -o $(B)/libhawk.o $(addprefix -u ,$(library_names)) $(archive)
	$(Q)objcopy --wildcard -R '.gnu.*lto_*' $(addprefix --keep-global-symbol=,$(library_names)) $(B)/libhawk.o
	$(Q)rm -f $@ && ar rcs $@ $(B)/libhawk.o && rm $(B)/libhawk.o

-include $(objects:.o=.d) $(main_object:.o=.d) $(guard_object:.o=.d) $(B)/obj/daemon/hawk_runner.d $(B)/obj/runas/hawk_run_as.d $(gen_objects:.o=.d) $(test_lib_objects:.o=.d)
-include $(test_sources:%.c=$(B)/obj/%.d) $(bench_sources:%.c=$(B)/obj/%.d) $(bench_lib_sources:%.c=$(B)/obj/%.d)
-include $(fuzz_sources:%.c=$(B)/obj/%.d) $(fuzz_lib_sources:%.c=$(B)/obj/%.d)

# --- tests -----------------------------------------------------------------------------------------

$(B)/tests/test_%: $(B)/obj/tests/test_%.o $(test_archive) $(guard_object) $(archive)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) -o $@ $^ -lcmocka $(LIBS)
.PRECIOUS: $(B)/obj/%.o $(B)/gen/%.pb.c $(B)/gen/%.pb.h

$(B)/tests/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(fuzz_lib_sources:%.c=$(B)/obj/%.o) $(test_archive) $(archive)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) -o $@ $^ -lcmocka $(LIBS)

$(B)/seeds/%: tests/fuzz/corpus/%.tar.xz
	$(Q)tools/fuzz $(B) unpack $*

programs: $(test_programs) $(fuzz_replays) $(fuzz_seeds)
	@:
# The suites that `make test` leaves out say so in their sources (tests/run). With T=NAME it leaves out none.
test test-all: $(test_programs) $(fuzz_replays) $(fuzz_seeds) $(if $(test_scripts),$(binary) $(if $(binary),$(helper) $(B)/libhawk.a python))
	$(if $(test_programs)$(fuzz_replays)$(test_scripts),,$(error no test is called '$(T)'))
	$(Q)HAWK=$(abspath $(B)/hawk) SANITIZE=$(SANITIZE) tests/run $(if $(filter *-test,$(T)-$@),--quick) $(test_programs) $(fuzz_replays) $(test_scripts)

# tests/e2e/test_load.py as large as docs/reliability.md tells; some minutes, and 3 GiB in the directory for temporary files.
test-load: $(binary)
	$(Q)HAWK_LOAD=full HAWK=$(abspath $(B)/hawk) tests/run tests/e2e/test_load.py

# tests/e2e/test_flood.py: every attack on every role for a minute, an hour and a quarter in all. FLAGS: names of its tests.
test-flood: $(binary)
	$(Q)HAWK_FLOOD_SECONDS=$(SECONDS) HAWK=$(abspath $(B)/hawk) tests/e2e/test_flood.py $(FLAGS)

# The same targets under libFuzzer, one after the other, SECONDS each; T=NAME: one of them. With clang, in a build
# directory of its own; what is found goes to its findings/.
fuzz: fuzz-build
	$(Q)tools/fuzz build/fuzz $(SECONDS) $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_$(T).c))
fuzz-build:
	$(Q)$(MAKE) B=build/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined WARNINGS=-Wno-unknown-warning-option \
		T='fuzz_$(T)' fuzz-programs
fuzz-programs: $(fuzz_sources:tests/fuzz/%.c=$(B)/%)
$(B)/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(filter-out %/replay.o,$(fuzz_lib_sources:%.c=$(B)/obj/%.o)) \
		$(test_archive) $(archive)
	$(call say,LINK,$@)
	$(Q)$(link) -fsanitize=fuzzer -o $@ $^ -lcmocka $(LIBS)

# --- Python ----------------------------------------------------------------------------------------

# The package hawk as it is installed: python/hawk, with the messages of protos/.
python_sources := $(wildcard python/hawk/*.py)
python_types := $(wildcard python/hawk/*.pyi) python/hawk/py.typed
python_protos := protos/hawk.proto protos/executor.proto
python: $(B)/python.stamp
$(B)/python.stamp: $(python_sources) $(python_types) python/pyproject.toml $(python_protos) | $(B)/deps.stamp
	$(call say,PYTHON,$(B)/python)
	$(Q)rm -rf $(B)/python && mkdir -p $(B)/python/hawk
	$(Q)cp $(python_sources) $(python_types) $(python_protos) $(B)/python/hawk/ && cp python/pyproject.toml $(B)/python/
	$(Q)protoc -Iprotos --python_out=$(B)/python/hawk $(python_protos)
	$(Q)touch $@
wheel: all python
	$(Q)tools/deps packages-deb.txt
	$(Q)tools/wheel $(B) $(B)/wheel $(VERSION)

# --- checks ----------------------------------------------------------------------------------------

check: | $(B)/deps.stamp
	$(Q)status=0; for part in format build structure python tidy; do $(MAKE) check-$$part || status=1; done; exit $$status

check-format: | $(B)/deps.stamp
	$(Q)clang-format --dry-run --Werror $(own_files) || { echo "FAIL: that is not formatted: make format"; exit 1; }
	@echo "ok: format of $(words $(own_files)) files"
check-python: python
	$(Q)/usr/bin/python3 -m pyflakes $(python_sources) $(filter %.pyi,$(python_types))
	@echo "ok: pyflakes on $(words $(python_sources) $(filter %.pyi,$(python_types))) files"
check-build: all programs $(bench_programs)
	@echo "ok: builds without warnings"
# Objects that the link optimizes do not say what they call, nor which data they keep: those of policy are built without.
# Those of `named` are looked at for their names alone.
policy := base msg template owner peers classifier stealer central dist worker
named := workload faults store
check-structure:
	$(Q)$(MAKE) B=$(B)/plain LTO= $(patsubst %.c,$(B)/plain/obj/%.o,$(wildcard $(patsubst %,%/*.c,$(policy) $(named))))
	$(Q)tools/check-structure $(B)/plain
# One stamp per file, renewed when its object is: a second run looks only at what changed. The analyzer looks at a third of
# the paths that it would by default, in a third of the time.
analyzer := -Xclang -analyzer-config -Xclang max-nodes=75000
tidy_stamps := $(patsubst %.c,$(B)/tidy/%.ok,$(wildcard $(all_sources)))
check-tidy: $(tidy_stamps)
	@echo "ok: clang-tidy on $(words $(tidy_stamps)) files"
$(B)/tidy/%.ok: $(B)/obj/%.o .clang-tidy
	$(call say,TIDY,$*.c)
	$(Q)mkdir -p $(@D)
	$(Q)clang-tidy --quiet $*.c -- $(LANGUAGE) $(analyzer) >$@.log 2>&1 || { cat $@.log; exit 1; }
	$(Q)touch $@

format:
	$(Q)clang-format -i $(own_files)

# --- the rest --------------------------------------------------------------------------------------

demo: all
	$(Q)HAWK=$(abspath $(B)/hawk) tools/demo
# Against the published simulator's results, in $$HAWK_SHARED (../shared); several minutes.
calibrate: all
	$(Q)tools/calibrate $(abspath $(B)/hawk) --write docs/notebook/calibration.md

# Random clusters with random faults, on all cores, from a seed that no run had before.
SECONDS ?= 60
swarm: $(binary)
	$(Q)$< sim --faults --for $(SECONDS)s --seed $$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')

# Real daemons in network namespaces, under load, killed and cut off (docs/reliability.md). FLAGS: more for tools/soak.
soak: $(binary) $(helper)
	$(Q)HAWK=$(abspath $<) tools/soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(FLAGS)

# Does that find mistakes? Each of tests/mutations/*.patch is one: built and run in a copy of the tree. RENEW=1: where its
# seed finds it no more, another is looked for and written into the patch.
mutate:
	$(Q)tools/mutate $(if $(RENEW),--renew)

# All of these of one commit, and docs/proof.md says what came of it; tools/proof --help. PART=NAME: one part alone.
proof:
	$(Q)tools/proof $(if $(SHORT),--short) $(if $(PART),--parts $(PART))

# Each prints medians with their range, and all but codec and bus write them to $(B)/bench/NAME.json. All that end in some minutes each, for a
# machine with nothing else to do; docs/benchmarks.md says which table is whose, and how long it takes.
BENCHES := codec bus signed noop commands policy price wire idle heartbeats
# One at a time: a figure taken beside another bench's load is none.
bench: all $(bench_programs)
	$(Q)for b in $(BENCHES); do echo "== $$b"; $(MAKE) bench-$$b || exit 1; done
bench-commands bench-noop bench-policy bench-price bench-signed bench-wire bench-idle bench-heartbeats bench-recovery: bench-%: all $(B)/bench/bench_%
	$(Q)mkdir -p $(B)/bench && $(B)/bench/bench_$* $(B)/bench/$*.json $(ROUNDS)
bench-commands bench-noop: $(B)/bench/hawk-run-as
# For the machine that bench/lib/columns.c makes.
$(B)/bench/hawk-run-as: runas/hawk_run_as.c runas/config.c runas/limits.c runas/run_as.h $(B)/flags.list
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LANGUAGE) $(CFLAGS) $(WARNINGS) -DRUN_AS_CONF='"/mnt/run-as.conf"' -o $@ $(filter %.c,$^)
bench-codec bench-bus bench-pause: bench-%: all $(B)/bench/bench_%
	$(Q)$(B)/bench/bench_$*
# lib or lib:peer of those that are installed.
peer_libs := $(if $(wildcard /usr/include/libgearman),gearman) $(if $(wildcard /usr/include/hiredis),hiredis:redis)
peers := $(foreach p,$(peer_libs),$(lastword $(subst :, ,$(p))))
bench-noop: $(peers:%=$(B)/bench/noop_%)
# The bar for the default policy, cell by cell, simulated, over hours; resumes (docs/results.md). TRACES: as for figures.
# FLAGS: cells, as in bench/bar.py --help.
bench-bar: all
	$(Q)bench/bar.py $(B)/hawk $(FLAGS)
# Short jobs beside bursts of long work, simulated: a table of docs/results.md.
bench-bursts: all
	$(Q)bench/bursts.py $(B)/hawk
# Response times at 80 % load, beside an ideal and peers; half an hour, and an hour for the mixed load.
bench-poisson: all $(B)/bench/poisson_client $(peers:%=$(B)/bench/%_queue)
	$(Q)bench/poisson.py pure $(abspath $(B)/hawk) $(abspath $(B)) $(B)/bench/poisson.json $(ROUNDS)
bench-mixed: all $(B)/bench/poisson_client
	$(Q)bench/poisson.py mixed $(abspath $(B)/hawk) $(abspath $(B)) $(B)/bench/mixed.json $(ROUNDS)
$(B)/bench/poisson_client: $(B)/obj/bench/poisson_client.o $(bench_archive) $(archive)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) -o $@ $^ $(LIBS)
# Calls from Python, beside multiprocessing and Dask (which is left out where it is not installed).
bench-python: all python
	$(Q)mkdir -p $(B)/bench && bench/calls.py $(abspath $(B)) $(B)/bench/python.json $(ROUNDS)
# Peers: what is not installed is left out.
bench-deps:
	$(Q)tools/deps packages-bench.txt
link_peer = $(CC) $(LANGUAGE) $(CFLAGS) $(WARNINGS) -o $@ $(filter %.c,$^) -l$(firstword $(subst :, ,$(filter %$*,$(peer_libs))))
$(B)/bench/%_queue: bench/peers/queue.c bench/peers/%.c bench/peers/queue.h bench/lib/arrivals.h $(B)/flags.list
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link_peer)
$(B)/bench/noop_%: bench/peers/noop.c bench/peers/%.c bench/peers/queue.h $(B)/flags.list
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link_peer)

# The simulator's alone, with its figures in $(B)/bench/sim.json; INSTRUCTIONS=1: valgrind counts instructions where the
# processor does not (some minutes).
bench-sim: $(B)/bench/bench_sim
	$(Q)$< $(B)/bench/sim.json
# Centrals on a real etcd, killed one after another; figures as JSON in $(B)/bench/takeover.json.
KILLS ?= 10
bench-takeover: all
	$(Q)HAWK=$(abspath $(B)/hawk) OUT=$(abspath $(B))/bench/takeover.json bench/takeover $(KILLS)
$(bench_archive): $(bench_lib_sources:%.c=$(B)/obj/%.o)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/bench/bench_%: $(B)/obj/bench/bench_%.o $(bench_archive) $(guard_object) $(archive)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link_whole) -o $@ $^ $(LIBS)

# What an outage of central costs a long job; figures in $(B)/bench/outage.json.
bench-outage: $(binary)
	$(Q)bench/outage.py $(abspath $(B)/hawk) $(B)/bench/outage.json $(RUNS)
# How soon clients are served elsewhere when their dist is killed or stopped; figures in $(B)/bench/failover.json.
bench-failover: $(binary) $(B)/bench/failover_clients
	$(Q)bench/failover.py $(abspath $(B)/hawk) $(B)/bench/failover_clients $(B)/bench/failover.json $(RUNS)
$(B)/bench/failover_clients: $(B)/obj/bench/failover_clients.o $(archive)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) -o $@ $^ $(LIBS)

# docs/figures and the tables of docs/results.md and docs/notebook/results.md, from runs made here; TRACES: where google-10000.tr and yahoo-2910.tr are.
figures: all
	$(Q)HAWK=$(abspath $(B)/hawk) tools/figures

PREFIX ?= /usr/local
# hawk-run-as knows its configuration by this path, of when it was built. `private`: the flags of all other objects stay.
SYSCONFDIR ?= /etc
$(B)/obj/runas/hawk_run_as.o: private LANGUAGE += -DRUN_AS_CONF='"$(SYSCONFDIR)/hawk/run-as.conf"'
$(B)/obj/runas/hawk_run_as.o: $(B)/run_as_conf.list
$(B)/run_as_conf.list: FORCE
	$(call remember,$(SYSCONFDIR))
# Manual pages, and completion for bash, zsh and fish, from the commands' tables.
generate = mkdir -p $(B)/share && $(B)/hawk generate $(B)/share
man completions: $(binary)
	$(Q)$(generate)
# The units name the binary by its path, /usr/local/bin/hawk where they lie here.
install: all install-files
# What is built already.
install-files: $(if $(filter install,$(MAKECMDGOALS)),all) $(filter %/hawk-run-as,$(helper)) python
	$(Q)$(generate)
	$(Q)tools/install $(B) $(PREFIX) "$(DESTDIR)" $(SYSCONFDIR)
# What `install` put there, and nothing else.
uninstall: $(binary)
	$(Q)$(generate)
	$(Q)tools/install $(B) $(PREFIX) "$(DESTDIR)" $(SYSCONFDIR) --remove

# Debian packages, in $(B)/deb; test-deb installs, upgrades and removes them on a copy of this root (as root).
deb: all python
	$(Q)tools/deps packages-deb.txt
	$(Q)tools/deb $(B) $(B)/deb $(VERSION)
test-deb: all python
	$(Q)tools/deps packages-deb.txt
	$(Q)tests/packages/test_deb.py $(B)

# For machines that are not Debian 12: the binary with its libraries, the C library among them; in $(B)/tarball. test-tarball
# unpacks it on other root file systems (as root), which are kept in $(B)/roots.
tarball: all $(B)/launcher
	$(Q)tools/deps packages-deb.txt
	$(Q)tools/tarball $(B) $(B)/tarball $(VERSION)
test-tarball: all $(B)/launcher
	$(Q)tools/deps packages-deb.txt
	$(Q)tests/packages/test_tarball.py $(B)
$(B)/launcher: $(B)/obj/packaging/tarball/launcher.o
	$(call say,LINK,$@)
	$(Q)$(link) -static -o $@ $^
-include $(B)/obj/packaging/tarball/launcher.d

clean:
	rm -rf build

help:
	@echo "make                   build/hawk"
	@echo "make test [T=NAME]     build and run the tests (tests/test_NAME.c, tests/e2e/test_NAME.*), in five minutes"
	@echo "make test-all          all tests: users, TLS, attacks, upgrades and long ones, too; CI runs them, and once more"
	@echo "                       under sanitizers: make SANITIZE=address,undefined test-all"
	@echo "make demo              a cluster on this machine under a mixed load"
	@echo "make bench             all measurements of speed and memory, one after the other; as JSON in build/bench/"
	@echo "make bench-NAME        one of them: codec bus signed noop commands policy price wire idle heartbeats [ROUNDS=7]; and more that"
	@echo "                       \"make bench\" leaves out: bursts pause python recovery sim"
	@echo "make bench-bar         the default policy against its bar, simulated cell by cell; hours (TRACES=DIR) [FLAGS=--list]"
	@echo "make bench-poisson     response times at 80 % load, beside an ideal and peers; half an hour"
	@echo "make bench-mixed       the same under a mixed load; an hour"
	@echo "make bench-deps        install the peers that some are measured beside (tools/packages-bench.txt)"
	@echo "make bench-failover    how soon clients are served elsewhere when their dist dies [RUNS=7]"
	@echo "make bench-outage      what an outage of central costs a long job [RUNS=3]"
	@echo "make bench-takeover    how long a cluster is without its central after kill -9 [KILLS=10]"
	@echo "make figures           the papers' simulated figures (TRACES=DIR: the published traces)"
	@echo "make test-load         10,000 jobs, 1,000 clients, clients that read nothing, gigabytes of output"
	@echo "make test-flood [SECONDS=60] attacks on every role's socket, each so long"
	@echo "make fuzz [T=NAME] [SECONDS=60] hostile input from libFuzzer (tests/fuzz), each target so long"
	@echo "make swarm [SECONDS=60] random clusters with random faults, invariants checked after every step"
	@echo "make soak SECONDS=1800 [SEED=N]  real daemons in network namespaces, killed, stopped and cut off under load (root)"
	@echo "make mutate [RENEW=1]  breaks the code on purpose, and shows which invariant or test finds it"
	@echo "make proof [SHORT=1] [PART=NAME]  all proofs of this commit, to docs/proof.md: a day; SHORT=1: an hour. Continues where"
	@echo "                       it stopped. Parts: seeds soak fuzz mutations benchmarks calibration prototype"
	@echo "make calibrate         the simulator against the published one (docs/notebook/calibration.md)"
	@echo "make check             format, warnings, lint, structure and purity"
	@echo "make format            rewrite the sources with clang-format"
	@echo "make deps              install the Debian packages in tools/packages.txt that are missing"
	@echo "make install           binary, library, man pages, completion, systemd units, examples: \$$(DESTDIR)\$$(PREFIX),"
	@echo "                       by default /usr/local; make uninstall removes exactly that"
	@echo "make deb [VERSION=V]    Debian packages, in build/deb; make test-deb installs, upgrades and removes them (as root)"
	@echo "make tarball [VERSION=V] for other systems: hawk with its libraries, in build/tarball; make test-tarball starts it on some"
	@echo "make python            the Python package, in build/python; make wheel [VERSION=V]: as a wheel, in build/wheel"
	@echo "make man completions   manual pages, and completion for bash, zsh and fish, in build/share/"
	@echo "make clean             remove build/"
	@echo "Variables: SANITIZE=address,undefined|thread  B=build/other  ROOMS=\"base msg\"  V=1  JOBS=2"
