/* Conversations with one worker: tell it something, then expect every message it puts out, in order. The
 * invariants are checked after each step, and a message nobody expected fails the test. */
#ifndef HAWK_TESTS_TEST_WORKER_H
#define HAWK_TESTS_TEST_WORKER_H

#include "base/units.h"
#include "worker/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CENTRAL 0xffffffu
#define SELF 7u   /* the worker's own id */
#define OTHER 8u  /* another worker */
#define DIST 100u /* a dist, and a second one */
#define DIST2 101u

#define MS US_PER_MS
#define JOB(seq) job_id_make((node_id_t){DIST}, (seq))
#define TRY(seq, n) ((struct try_id){.job = JOB(seq), .task = (n), .epoch = 1, .attempt = 1})

struct talk {
    struct worker w;
    struct worker_config config;
    struct out out;
    uint32_t taken; /* messages of out already expected */
    int64_t now_us;
    struct job_desc *desc;
    struct msg got;
};

/* Says it at the present time. */
static inline void tell_msg(struct talk *t, struct msg m)
{
    struct event e = {.now_us = t->now_us, .m = m};

    if (t->taken != t->out.n) {
        char text[300];

        msg_format(&t->out.v[t->taken], text, sizeof text);
        fail_msg("not expected before %s: %s", msg_name(m.type), text);
    }
    out_clear(&t->out);
    t->taken = 0;
    worker_step(&t->w, &e, &t->out);
    worker_check(&t->w);
    assert_true(worker_next_timeout(&t->w) > t->now_us || m.type != MSG_TIMER);
}

#define tell(t, NAME, name, from, ...)                                                                       \
    tell_msg((t), (struct msg){.type = MSG_##NAME, .peer = (from), .name = {__VA_ARGS__}})

static inline const struct msg *next_out(struct talk *t, unsigned type, uint32_t to)
{
    char text[300] = "nothing";

    if (t->taken < t->out.n && t->out.v[t->taken].type == type && t->out.v[t->taken].peer == to)
        return &t->out.v[t->taken++];
    if (t->taken < t->out.n)
        msg_format(&t->out.v[t->taken], text, sizeof text);
    fail_msg("expected %s to %u, got %s to %u", msg_name(type), to, text,
             t->taken < t->out.n ? t->out.v[t->taken].peer : 0);
    return NULL;
}

/* The next message out is this one, to that peer (0: an effect), and cond holds of its fields `m`. */
#define expect(t, NAME, name, to, cond)                                                                      \
    do {                                                                                                     \
        const struct msg *expect_msg = next_out((t), MSG_##NAME, (to));                                      \
        const struct msg_##name *m = &expect_msg->name;                                                      \
        char expect_text[300];                                                                               \
                                                                                                             \
        msg_format(expect_msg, expect_text, sizeof expect_text);                                             \
        if (!(cond))                                                                                         \
            fail_msg("%s: not %s", expect_text, #cond);                                                      \
    } while (0)

#define nothing(t) assert_int_equal((t)->out.n, (t)->taken)
#define whatever (m != NULL)

/* Lets time pass, with a TIMER whenever the worker wants one; stops at the first that puts something out. */
static inline void pass(struct talk *t, int64_t us)
{
    int64_t until = t->now_us + us;

    while (worker_next_timeout(&t->w) <= until) {
        int64_t at = worker_next_timeout(&t->w);

        t->now_us = at > t->now_us ? at : t->now_us;
        tell(t, TIMER, timer, 0, 0);
        if (t->out.n > 0)
            return;
    }
    t->now_us = until;
}

static inline void talk_init(struct talk *t, uint32_t slots)
{
    memset(t, 0, sizeof *t);
    worker_config_init(&t->config);
    t->config.slots = slots;
    t->config.heartbeats = false; /* tests of heartbeats switch them on */
    t->config.name = blob_str("w7");
    t->config.addr = blob_str("127.0.0.1:7107");
    t->config.incarnation = 4711;
    t->config.policy.cutoff_us = 10 * US_PER_S;
    t->now_us = 1000000;
    t->desc = job_desc_new();
    t->desc->tasks = 100;
}

static inline void talk_start(struct talk *t)
{
    worker_init(&t->w, &t->config, 1);
    worker_check(&t->w);
    tell(t, START, start, 0, 0);
    nothing(t);
}

static inline void join(struct talk *t)
{
    tell(t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(t, JOIN, join, CENTRAL, m->slots == t->config.slots && m->role == ROLE_WORKER && m->name != NULL);
    tell(t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(t, HELD_END, held_end, CENTRAL, whatever);
    tell(t, PARTITION, partition, CENTRAL, .epoch = 1, .general = 1);
    expect(t, PARTITION_ACK, partition_ack, CENTRAL, m->epoch == 1);
}

static inline void dist_comes(struct talk *t, uint32_t dist)
{
    tell(t, PEER_UP, peer_up, dist, ROLE_DIST);
    expect(t, HELD_END, held_end, dist, whatever);
}

/* A joined general worker with two dists, and nothing to do. */
static inline void talk_begin(struct talk *t, uint32_t slots)
{
    talk_init(t, slots);
    talk_start(t);
    join(t);
    dist_comes(t, DIST);
    dist_comes(t, DIST2);
}

static inline void talk_end(struct talk *t)
{
    nothing(t);
    worker_free(&t->w);
    out_free(&t->out);
    blob_drop(t->config.name);
    blob_drop(t->config.addr);
    assert_int_equal(t->desc->refs, 1); /* every reference was given back */
    job_desc_drop(t->desc);
}

/* ---- Frequent passages ---- */

static inline void probe(struct talk *t, uint64_t job, uint32_t n)
{
    tell(t, PROBE, probe, DIST, .job = JOB(job), .count = n, .class = CLASS_SHORT);
}

static inline void launch(struct talk *t, uint64_t job, uint32_t task, uint32_t request)
{
    tell(t, TASK_LAUNCH, task_launch, DIST, .id = TRY(job, task), .desc = t->desc, .request = request);
}

/* After a TASK_LAUNCH or a served bound task: the executor starts it. Returns its handle. */
static inline uint32_t starts(struct talk *t, uint64_t job, uint32_t task, uint32_t owner)
{
    uint32_t run;

    expect(t, EXEC_START, exec_start, 0,
           m->id.job.v == JOB(job).v && m->id.task == task && m->desc == t->desc);
    run = t->out.v[t->taken - 1].exec_start.run;
    nothing(t);
    tell(t, EXEC_STARTED, exec_started, 0, .run = run, .pid = 1);
    if (owner)
        expect(t, TASK_STARTED, task_started, owner, m->id.task == task);
    return run;
}

static inline void exits(struct talk *t, uint32_t run, int32_t code)
{
    tell(t, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = OUTCOME_EXITED, .code = code, .run_us = 5000);
}

static inline void enqueue(struct talk *t, uint64_t job, uint32_t task)
{
    tell(t, TASK_ENQUEUE, task_enqueue, CENTRAL, .id = TRY(job, task), .desc = t->desc, .estimate_us = 1000);
}

/* Fills a slot with a long task of central's and returns its handle. */
static inline uint32_t long_runs(struct talk *t, uint64_t job)
{
    enqueue(t, job, 0);
    return starts(t, job, 0, CENTRAL);
}

static inline struct worker_counts counts_of(const struct talk *t)
{
    struct worker_counts c;

    worker_counts(&t->w, &c);
    return c;
}

/* The general workers 7 (this one), 8, 9, … 7 + n. */
static inline void members_are(struct talk *t, uint32_t n)
{
    struct members *list = members_new(n + 1);

    for (uint32_t i = 0; i <= n; i++) {
        list->v[i].node.v = SELF + i;
        list->v[i].role = ROLE_WORKER;
        list->v[i].state = MEMBER_UP;
        list->v[i].general = 1;
    }
    tell(t, MEMBERS, members, CENTRAL, .list = list, .version = 1);
    members_drop(list);
}

#endif
