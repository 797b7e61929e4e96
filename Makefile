# Makefile for bunbtree
#
#   make, make install      build against the server that PG_CONFIG names
#   make installcheck       test against a running server of that installation
#   make test, make demo, make check-core
#                           scripts that install what they need themselves
#   make stress, make soak, make mutate
#                           others, with parameters: see CONTRIBUTING.md
#
# The last six work where there is nothing but make, so PGXS, which needs a
# pg_config, is only asked for the others.

EXTENSION = bunbtree
MODULE_big = bunbtree
OBJS = \
	src/adopt.o \
	src/bridge.o \
	src/bunbtree.o \
	src/check.o \
	src/compact.o \
	src/executor.o \
	src/insert.o \
	src/inspect.o \
	src/merge.o \
	src/opclass.o \
	src/options.o \
	src/pass.o \
	src/planner.o \
	src/policy.o \
	src/refresh.o \
	src/sample.o \
	src/scan.o \
	src/shared.o \
	src/state.o \
	src/stats.o \
	src/yield.o

# The version stands in bunbtree.control.
DATA = $(wildcard bunbtree--*.sql)

# Every file in sql/, specs/ and t/ is run; "make test" fails if one is not.
REGRESS = setup opclass types options kinds scan plans upsert keyset maintenance churn stats faults inspect adopt candidates compact
ISOLATION = unique_wait two_writers held_snapshot invalidation conversion concurrent_upsert concurrent_keyset mid_insert write_skew compaction
ISOLATION_OPTS = --load-extension=bunbtree --load-extension=amcheck
TAP_TESTS = $(if $(wildcard t/*.pl),1)

# The tests that "make test" runs once more under debug_discard_caches = 1,
# which makes them about a hundred times slower.
REGRESS_DISCARD = setup kinds churn faults

PG_CPPFLAGS = -I$(srcdir)/include

SCRIPT_GOALS = check-core demo mutate soak stress test

ifneq ($(filter-out $(SCRIPT_GOALS),$(or $(MAKECMDGOALS),all)),)

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(wildcard $(PGXS)),)
define no_pgxs

"$(PG_CONFIG)" does not lead to a PostgreSQL server's development files.
Name the server's own pg_config (make PG_CONFIG=/path/to/bin/pg_config),
install the files (Debian: postgresql-server-dev-NN), or let "make demo" or
"make test" install what is missing
endef
$(error $(no_pgxs))
endif
include $(PGXS)

# Servers are commonly configured without --enable-depend.
$(OBJS) $(OBJS:.o=.bc): $(wildcard include/*.h)

endif

.PHONY: $(SCRIPT_GOALS)

demo:
	@bench/demo

stress:
	@.ci/stress $(if $(DURATION),--duration $(DURATION)) $(if $(SEED),--seed $(SEED)) \
		$(if $(CRASHES),--crashes $(CRASHES)) $(if $(SERVER),--server $(SERVER))

soak:
	@.ci/soak $(if $(DURATION),--duration $(DURATION)) $(if $(SERVER),--server $(SERVER))

# Do the tests notice what is broken on purpose?
mutate:
	@.ci/mutate $(if $(SERVER),--server $(SERVER)) $(MUTANTS)

test:
	@.ci/test

# PostgreSQL's own tests on bunbtree indexes; see .ci/core/README.md.
check-core:
	@.ci/check-core
