/* Random clusters with random faults, each from one seed: `hawk sim --faults`, tests/test_soak.c, `make swarm`.
 *
 * A run draws its cluster (policy, flags, sizes, delays), its jobs and its faults. It checks every invariant
 * (INVARIANTS in faults/cluster.h) after every step. At the end everything heals: then every job must end within
 * heal_us, and every table must become empty. The same options give the same run, byte for byte. */
#ifndef HAWK_FAULTS_FAULTS_H
#define HAWK_FAULTS_FAULTS_H

#include "faults/cluster.h"

#include <stdio.h>

/* X(constant, name, help) */
#define FAULT_KINDS(X)                                                                                       \
    X(BREAK, "break", "streams break at any byte, and come back")                                            \
    X(UNSEEN, "unseen", "streams break, and each side notices it seconds later, at a time of its own")       \
    X(STALL, "stall", "for seconds no message gets from one node to another, then all do")                   \
    X(CUT, "cut", "two nodes cannot reach each other for seconds, and notice it at once")                    \
    X(PARTITION, "partition", "one node cannot reach another, or all others, and notices it by silence")     \
    X(ONE_WAY, "one-way", "the same in one direction only")                                                  \
    X(DELAY, "delay", "each message takes up to 50 ms more, and a node's messages up to 300 ms more")        \
    X(FREEZE, "freeze", "a process or a machine stands still for seconds")                                   \
    X(WORKER, "worker", "workers crash, noticed at once or not, and restart at once or later")               \
    X(DIST, "dist", "dists crash, noticed at once or not, and restart at once or later")                     \
    X(AGENT, "agent", "workers' processes crash; new ones take their tasks over, at once or later")          \
    X(CENTRAL, "central", "central crashes and restarts from its journal, at once or later")                 \
    X(STOP, "stop", "workers stop, in good order or at once")                                                \
    X(JOIN, "join", "workers join")                                                                          \
    X(DRAIN, "drain", "nodes are drained, for good or until they restart, and undrained")                    \
    X(DISK, "disk", "commits of a journal take seconds")                                                     \
    X(FULL, "full", "a journal cannot be written for seconds")                                               \
    X(TABLES, "tables", "tables and queues are small, and sometimes full")                                   \
    X(ESTIMATES, "estimates", "estimates are wrong by a factor of up to a thousand")                         \
    X(EXECUTOR, "executor", "some jobs need attached executors, which come and go, and pause tasks or not")  \
    X(CLIENT, "client",                                                                                      \
      "a dist crashes with the clients of its jobs, whose tasks would run for hours from then on")           \
    X(POLICY, "policy", "an operator changes the policy while jobs run")                                     \
    X(EMPTY, "empty", "central loses its state and starts with nothing, once in a run")                      \
    X(STARTLESS, "startless", "for seconds a worker can start no task; some jobs can start nowhere")         \
    X(COPY, "copy", "a dist goes on with an old copy of its journal, or without it")                         \
    X(ADDRESS, "address", "workers come back at other addresses, perhaps at those of others")                \
    X(OLDER, "older", "for seconds a central answers that does not know that it was replaced")               \
    X(MOVED, "moved", "clients move their jobs from dist to dist, and back again")

enum fault_kind {
#define X(name, text, help) FAULT_##name,
    FAULT_KINDS(X)
#undef X
        FAULT_COUNT
};
#define FAULTS_ALL ((1u << FAULT_COUNT) - 1)
extern const char *const fault_names[FAULT_COUNT];
/* Parses "break,cut", "all" or "none" to a set of 1 << enum fault_kind. HAWK_EINVALID: *bad points to the
 * unknown kind. */
HAWK_MUST_USE int faults_parse_kinds(const char *text, uint32_t *kinds, const char **bad);

struct faults_options {
    uint64_t seed;
    uint32_t kinds;  /* a set of 1 << enum fault_kind; 0: no fault, and invariants are stricter */
    bool draw_kinds; /* each seed draws some of the kinds; every fifth seed has none */
    uint32_t jobs;   /* number of jobs; 0: 5 to 29, as drawn */
    bool single;     /* one fault at a time, which may delay short tasks only so long (faults/single.c) */
    /* After the last fault every job ends within this time plus twice the time of all tasks; 0:
     * FAULTS_HEAL_US. */
    int64_t heal_us;
    bool log; /* log every message to standard error */
    /* As in struct cluster_config. */
    void (*failed)(void *arg, enum invariant invariant, const char *text);
    void *failed_arg;
};
#define FAULTS_HEAL_US (3000 * US_PER_S)

struct faults_result {
    uint64_t steps, jobs, tasks;
    uint64_t hash;                /* of all deliveries */
    int64_t virtual_us;           /* the run's length in virtual time */
    uint64_t faults[FAULT_COUNT]; /* number of faults of each kind */
    int64_t wait_us_max; /* with `single`: the longest time of a job that could have run all the time */
};

/* Describes the run of these options in a line, for a failure's report. Returns the length. */
size_t faults_describe(const struct faults_options *o, char *buf, size_t size);
/* Runs one seed. Returns if every invariant held; adds to *r. */
void faults_run(const struct faults_options *o, struct faults_result *r);

/* The same for `single`; faults_run() and faults_describe() call them. */
size_t faults_describe_single(const struct faults_options *o, char *buf, size_t size);
void faults_run_single(const struct faults_options *o, struct faults_result *r);

/* ---- Many seeds, on all cores ---- */

struct faults_failure {
    uint64_t seed;
    char invariant[32];
    char text[CLUSTER_FAILURE_TEXT];
};

struct faults_seeds {
    uint64_t first, n;  /* the seeds to run; n = 0: until the time is over */
    int64_t real_us;    /* start no seed after this time; 0: no limit */
    uint32_t processes; /* number of processes at a time */
    FILE *bar;          /* shows progress there; NULL: not at all */
    /* Called for every failure as it happens. */
    void (*report)(void *arg, const struct faults_failure *f);
    void *report_arg;
};

struct faults_total {
    uint64_t seeds, failed;
    double real_s;
    struct faults_result sum; /* its hash means nothing */
};

/* Runs the seeds in child processes, so that a role that aborts ends only its seed. A failed seed is not an
 * error: t counts it. HAWK_EIO with why if no process can start. */
HAWK_MUST_USE int faults_run_seeds(const struct faults_options *o, const struct faults_seeds *s,
                                   struct faults_total *t, char *why, size_t size);

#endif
