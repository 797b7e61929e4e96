MODULE_big = bunbtree
OBJS = src/bunbtree.o src/bridge.o src/insert.o src/options.o src/opclass.o src/pass.o src/policy.o src/yield.o src/stats.o src/check.o
EXTENSION = bunbtree
DATA = bunbtree--1.0.sql
PG_CPPFLAGS = -I$(srcdir)/include
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
