/* What the agent and its spawner say to each other over their socket: length-prefixed records, and the
 * growing buffer they wait in on either side. Both ends are on one machine, so integers are in its byte
 * order; the version is for an agent that takes over the spawner of an older one. */
#ifndef HAWK_EXEC_RECORD_H
#define HAWK_EXEC_RECORD_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_VERSION 2
#define RECORD_MAX (80u << 20) /* the largest: a job description, or one task's argument, and a little */

/* Fields in the order in which they are written; "bytes" is a u32 length and that many bytes. */
enum record_type {
    /* agent -> spawner */
    RECORD_SPEC = 1,  /* u32 spec, u32 tasks, u32 first_index, i64 time_limit_us, bytes: name, argv, env, cwd,
                         stdout, stderr, input (argv and env as in struct strings; absent where NULL); u32 umask
                         (as in job_desc; not from older agents) */
    RECORD_SPEC_DROP, /* u32 spec: no run of it is left */
    RECORD_RUN,    /* u32 run, u32 spec, u64 job, u32 task, u32 epoch, u32 attempt, u32 owner, u32 flags (enum
                         run_flag), bytes: argument, worker */
    RECORD_KILL,   /* u32 run, u32 outcome: what its end is called, u32 force */
    RECORD_STOP,   /* kill everything and end */
    RECORD_FORGET, /* u32 run: it has ended, and its end need not be kept any longer */
    RECORD_LEASE,  /* i64 when runs of RUN_LEASED must be dead (CLOCK_BOOTTIME, us); replaces the last one */
    RECORD_HELLO, /* first of all, by an agent that was not its parent: i64 kill_grace_us, i64 orphan_grace_us,
                         bytes: output_dir; u32 group_reads, u64 output_free_min, u64 pause_free_mem (those not from older
                         agents) */
    /* spawner -> agent */
    RECORD_STARTED, /* u32 run, u32 pid */
    RECORD_EXITED,  /* u32 run, u32 outcome, u32 code, i64 run_us, bytes: text for people, place
                       (as EXEC_EXITED has it; not from older spawners) */
    RECORD_HELD, /* the answer to RECORD_HELLO, once for every run not forgotten: u32 run, u32 pid, u64 job,
                       u32 task, u32 epoch, u32 attempt, u32 owner, u32 flags, u32 outcome (OUTCOME_NONE: it runs),
                       u32 code, i64 run_us, bytes: text for people, stdout's path, stderr's */
    RECORD_WELCOME, /* behind those: u32 its process id, u64 incarnation, i64 lease (TIME_NEVER: none), u32 whether
                       it knows RECORD_CHECK, u32 enum exec_freezer (those not from older spawners) */
    /* and since */
    RECORD_CHECK,   /* agent -> spawner: could tasks be started? bytes: place (as EXEC_CHECK has it) */
    RECORD_CHECKED, /* spawner -> agent: bytes: why not; absent: they could */
    RECORD_PAUSE,   /* agent -> spawner: u32 run; to none that gave no freezer */
    RECORD_RESUME,  /* agent -> spawner: u32 run */
    RECORD_PAUSED,  /* spawner -> agent: u32 run, i32 error (0: it stands still) */
};

/* What an agent has to know again of a run that it takes over. */
enum run_flag {
    RUN_LONG = 1u << 0,
    RUN_PROMOTABLE = 1u << 1,
    RUN_STOLEN = 1u << 2,
    RUN_LEASED = 1u << 3, /* central's: it must not outlive the lease (DESIGN 3, rule 9) */
};

/* A queue of bytes: written at the end, read from `off`. Zeroed is empty. */
struct bytes {
    char *data;
    size_t len, cap;
    size_t off;
};

static inline size_t bytes_pending(const struct bytes *b) { return b->len - b->off; }
void bytes_add(struct bytes *b, const void *data, size_t n);
void bytes_free(struct bytes *b);
/* Sends what is pending as far as the socket takes it without blocking: 0, or HAWK_EUNAVAILABLE (it is
 * closed). */
HAWK_MUST_USE int bytes_send(struct bytes *b, int fd);
/* Reads once, without blocking: 1 when something came, 0 when nothing is there, HAWK_EUNAVAILABLE at the
 * end. */
HAWK_MUST_USE int bytes_receive(struct bytes *b, int fd);

/* Begins a record; its fields follow with put_*, and record_end (given what this returned) closes it. */
size_t record_begin(struct bytes *b, enum record_type type);
void record_end(struct bytes *b, size_t begun);
void put_u32(struct bytes *b, uint32_t v);
void put_u64(struct bytes *b, uint64_t v);
void put_data(struct bytes *b, const void *data, size_t n); /* NULL data: absent, which a reader can tell */

/* A record being read; `bad` once more was read than it holds. */
struct record {
    enum record_type type;
    const char *p, *end;
    bool bad;
};

/* Takes the next complete record off b: 1, 0 when there is none yet, HAWK_EMALFORMED when this is no
 * record of our version. The record points into b and holds until b is touched again. */
HAWK_MUST_USE int record_next(struct bytes *b, struct record *r);
uint32_t get_u32(struct record *r);
uint64_t get_u64(struct record *r);
const char *get_data(struct record *r, uint32_t *n); /* NULL: absent, or bad */

#endif
