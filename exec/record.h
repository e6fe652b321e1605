/* The messages between an agent and its spawner: length-prefixed records, and the growing buffer in which
 * they wait on either side. Both ends are on one machine, so integers have its byte order. The version
 * matters to an agent that takes over an older spawner. */
#ifndef HAWK_EXEC_RECORD_H
#define HAWK_EXEC_RECORD_H

#include "base/blob.h"
#include "base/err.h"
#include "msg/usage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_VERSION 2
/* The largest record: a job description, or one task's argument, and some more. */
#define RECORD_MAX (80u << 20)

/* Fields in the order in which they are written. "bytes": a u32 length and that many bytes. */
enum record_type {
    /* agent -> spawner */
    RECORD_SPEC = 1,  /* u32 spec, u32 tasks, u32 first_index, i64 time_limit_us, bytes: name, argv, env, cwd,
                         stdout, stderr, input (argv and env as in struct strings; absent where NULL); u32 umask
                         (as in job_desc), bytes: ancestors (ancestors_format, with the NUL); u32 columns,
                         bytes: each_env; u32 flags (enum job_flag); bytes: user; i64 mem_bytes, u32 pids;
                         to a user's runner bytes: signature (a message Signed); these not from older agents */
    RECORD_SPEC_DROP, /* u32 spec: it has no run any more */
    RECORD_RUN,    /* u32 run, u32 spec, u64 job, u32 task, u32 epoch, u32 attempt, u32 owner, u32 flags (enum
                         run_flag), bytes: argument, worker; to a user's runner u32 enum run_file: the files that the
                         agent has opened, whose descriptors come with or before the record; bytes: the argument's proof
                         (msg_exec_proof) */
    RECORD_KILL,   /* u32 run, u32 outcome: the outcome of its end, u32 force */
    RECORD_STOP,   /* kill everything, then end */
    RECORD_FORGET, /* u32 run: it has ended, and nobody will ask for its end again */
    /* i64 time when runs with RUN_LEASED must be dead (CLOCK_BOOTTIME, us); replaces the last one. */
    RECORD_LEASE,
    /* The first record of an agent that did not fork the spawner: i64 kill_grace_us, i64 orphan_grace_us,
     * bytes: output_dir; u32 group_reads, u64 output_free_min, u64 pause_free_mem, bytes: executors (these
     * not from older agents); to a user's runner also bytes: worker, u64 incarnation, u32 enum exec_freezer, u64 the
     * soft limit on open files. */
    RECORD_HELLO,
    /* spawner -> agent */
    RECORD_STARTED, /* u32 run, u32 pid */
    RECORD_EXITED,  /* u32 run, u32 outcome, u32 code, i64 run_us, bytes: text for people, place
                       (as EXEC_EXITED has it; not from older spawners); i64 cpu_us, i64 mem_peak_bytes (0: not
                       known; not from older spawners) */
    /* The answer to RECORD_HELLO, once per run that nobody has forgotten: u32 run, u32 pid, u64 job, u32
     * task, u32 epoch, u32 attempt, u32 owner, u32 flags, u32 outcome (OUTCOME_NONE: it runs), u32 code, i64
     * run_us, bytes: text for people, paths of stdout and stderr; i64 cpu_us, i64 mem_peak_bytes (as in
     * RECORD_EXITED); bytes: user (not from older spawners). */
    RECORD_HELD,
    /* Comes after those: u32 its process id, u64 incarnation, i64 lease (TIME_NEVER: none), u32 enum
     * spawner_knows, u32 enum exec_freezer (these not from older spawners). */
    RECORD_WELCOME,
    /* added later, in both directions */
    RECORD_CHECK,   /* agent -> spawner: can tasks start? bytes: place (as in EXEC_CHECK) */
    RECORD_CHECKED, /* spawner -> agent: bytes: why not; absent: they can */
    RECORD_PAUSE,   /* agent -> spawner: u32 run; not to a spawner that named no freezer */
    RECORD_RESUME,  /* agent -> spawner: u32 run */
    RECORD_PAUSED, /* spawner -> agent: u32 run, i32 error (0: it stands still); bytes: the pids of its processes, if
                       these are stopped by a signal (not from older spawners) */
    RECORD_RESIDE, /* agent -> spawner: u32 run: it is done, and its processes stay */
    RECORD_EVICT,  /* agent -> spawner: u32 pid: end that resident */
};

#define PAUSE_PROCESSES_MAX 1024u /* pids in RECORD_PAUSED */

/* What a spawner knows: this, and all before it. 0: none of it. */
enum spawner_knows {
    KNOWS_CHECK = 1,    /* RECORD_CHECK */
    KNOWS_RESIDE,       /* RECORD_RESIDE */
    KNOWS_LIMITS,       /* of memory and processes */
    KNOWS_AGENT_LIMITS, /* cgroups for these, which its agent has made */
    KNOWS_GATES,
    SPAWNER_KNOWS = KNOWS_GATES /* of this version */
};

/* Properties of a run that an agent which takes it over must know. */
enum run_flag {
    RUN_LONG = 1u << 0,
    RUN_PROMOTABLE = 1u << 1,
    RUN_STOLEN = 1u << 2,
    RUN_LEASED = 1u << 3, /* central's run: it must not outlive the lease (DESIGN 3.9) */
};

/* Which of a run's files the agent has opened; their descriptors come in this order. */
enum run_file {
    RUN_STDOUT = 1u << 0,
    RUN_STDERR = 1u << 1,
    RUN_MEMORY = 1u << 2,      /* the entry of the cgroup that limits its memory, or of version 2 both */
    RUN_PIDS = 1u << 3,        /* the same for its processes */
    RUN_GATE = 1u << 4,        /* the gate to both (gates.h), if these only say where the cgroups are */
    RUN_HAS_FREEZER = 1u << 5, /* no descriptor: it has a cgroup since its first pause */
};
#define RUN_FILES 5
#define RUN_FIRST_ENTRY 2 /* the places of RUN_MEMORY and of RUN_GATE among them */
#define RUN_GATE_PLACE 4

/* A queue of bytes: written at the end, read from `off`. Zeros are an empty queue. */
struct bytes {
    char *data;
    size_t len, cap;
    size_t off;
    size_t record_max; /* the largest record that the reader takes; 0: RECORD_MAX */
    /* Descriptors go with the bytes, in order, and never after the bytes that were added after them. */
    int *fds;
    uint32_t fds_n, fds_cap;
    uint64_t sent;     /* how many bytes bytes_send() has sent */
    uint64_t lease_at; /* before which of all bytes the time of the last lease stands; 0: there was none */
    bool takes_fds;    /* the reader takes descriptors; otherwise the kernel closes them */
};

static inline size_t bytes_pending(const struct bytes *b) { return b->len - b->off; }
void bytes_add(struct bytes *b, const void *data, size_t n);
/* Frees the bytes, and closes the descriptors. */
void bytes_free(struct bytes *b);
/* Adds a descriptor, which is b's from now on. */
void bytes_add_fd(struct bytes *b, int fd);
/* Takes the oldest descriptor; -1: there is none. */
int bytes_take_fd(struct bytes *b);
/* Sends pending bytes as far as the socket takes them without blocking. Returns 0, or HAWK_EUNAVAILABLE: it
 * is closed. */
HAWK_MUST_USE int bytes_send(struct bytes *b, int fd);
/* Reads once, without blocking. Returns 1 when bytes came, 0 when none are there, HAWK_EUNAVAILABLE at the
 * end. */
HAWK_MUST_USE int bytes_receive(struct bytes *b, int fd);

/* Begins a record. put_* add its fields, and record_end(), with the returned value, ends it. */
size_t record_begin(struct bytes *b, enum record_type type);
void record_end(struct bytes *b, size_t begun);
void put_u32(struct bytes *b, uint32_t v);
void put_u64(struct bytes *b, uint64_t v);
/* A RECORD_LEASE. It takes the place of the last one if that is not sent: whoever does not read must not let them
 * gather. */
void put_lease(struct bytes *b, int64_t until_us);
/* NULL data: absent, which a reader can tell from empty. */
void put_data(struct bytes *b, const void *data, size_t n);
static inline void put_blob(struct bytes *b, const struct blob *blob)
{
    put_data(b, blob ? blob->data : NULL, blob ? blob->len : 0);
}

/* A record being read. `bad` is set when the reader wants more than it has. */
struct record {
    enum record_type type;
    const char *p, *end;
    bool bad;
};

/* Takes the next complete record from b. Returns 1; 0 when there is none yet; HAWK_EMALFORMED when this is no
 * record of our version. The record points into b, and is valid until b is touched again. */
HAWK_MUST_USE int record_next(struct bytes *b, struct record *r);
uint32_t get_u32(struct record *r);
uint64_t get_u64(struct record *r);
const char *get_data(struct record *r, uint32_t *n); /* NULL: absent, or bad */
struct blob *get_blob(struct record *r);             /* the same, as a new blob of the caller's */
/* The rest of the record: what a run used; not known, if an older spawner wrote it. */
struct usage get_usage(struct record *r);

#endif
