/* Conversations with central: tell it something, then expect what it puts out. Invariants are checked after
 * every step. Unless a test journals by itself, every record is answered at once. */
#ifndef HAWK_TESTS_TEST_CENTRAL_H
#define HAWK_TESTS_TEST_CENTRAL_H

#include "base/mem.h"
#include "base/units.h"
#include "central/central.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S US_PER_S
#define MS US_PER_MS

/* By convention of these tests a node's first stream has the number of its id. */
struct talk {
    struct central *c;
    struct central_config config;
    struct out out;
    bool *taken; /* of out: what was expected already */
    uint32_t taken_cap;
    int64_t now_us;
    bool journal_by_hand;
    uint32_t links; /* how many were given out */
};

static inline void talk_clear(struct talk *t)
{
    out_clear(&t->out);
    if (t->taken)
        memset(t->taken, 0, t->taken_cap);
}

/* One step; its output comes behind what is there. */
static inline void talk_step(struct talk *t, const struct msg *m)
{
    struct event e = {.now_us = t->now_us, .m = *m};

    central_step(t->c, &e, &t->out);
    central_check(t->c);
    assert_true(central_next_timeout(t->c) > t->now_us || m->type != MSG_TIMER);
    if (t->out.n > t->taken_cap) {
        t->taken = xrealloc(t->taken, t->out.cap);
        memset(t->taken + t->taken_cap, 0, t->out.cap - t->taken_cap);
        t->taken_cap = t->out.cap;
    }
}

/* The same without checks, for tests of what steps cost; forgets what was put out before. */
static inline void talk_quick_step(struct talk *t, const struct msg *m)
{
    struct event e = {.now_us = t->now_us, .m = *m};

    talk_clear(t);
    central_step(t->c, &e, &t->out);
}

static inline void talk_journal(struct talk *t, uint32_t from)
{
    while (from < t->out.n) {
        struct msg done = {.type = MSG_JOURNAL_DONE};

        for (; from < t->out.n; from++)
            if (msg_journal_token(&t->out.v[from]))
                done.journal_done.token = msg_journal_token(&t->out.v[from]);
        if (done.journal_done.token)
            talk_step(t, &done);
    }
}

/* Says it at the present time, and forgets what was put out before. */
static inline void tell_msg(struct talk *t, struct msg m)
{
    talk_clear(t);
    talk_step(t, &m);
    if (!t->journal_by_hand)
        talk_journal(t, 0);
}

#define tell(t, NAME, name, from, ...)                                                                       \
    tell_msg((t), (struct msg){.type = MSG_##NAME, .peer = (from), .name = {__VA_ARGS__}})

/* The next message of this type to this link that was not expected before; NULL when there is none. */
static inline const struct msg *find_out(struct talk *t, unsigned type, uint32_t to)
{
    for (uint32_t i = 0; i < t->out.n; i++)
        if (!t->taken[i] && t->out.v[i].type == type && t->out.v[i].peer == to) {
            t->taken[i] = true;
            return &t->out.v[i];
        }
    return NULL;
}

static inline const struct msg *expect_msg(struct talk *t, unsigned type, uint32_t to)
{
    const struct msg *m = find_out(t, type, to);
    char text[400];

    if (m)
        return m;
    for (uint32_t i = 0; i < t->out.n; i++) {
        msg_format(&t->out.v[i], text, sizeof text);
        print_message("%s %u: %s\n", t->taken[i] ? "expected" : "not expected", t->out.v[i].peer, text);
    }
    fail_msg("no %s to %u", msg_name(type), to);
    abort(); /* not reached; the analyzer wants to see it */
}

/* The struct of the next message of this type to this link; fails when there is none. */
#define expect(t, NAME, name, to)                                                                            \
    ({                                                                                                       \
        const struct msg_##name *got_##name = &expect_msg((t), MSG_##NAME, (to))->name;                      \
        got_##name;                                                                                          \
    })
#define expect_none(t, NAME, to) assert_null(find_out((t), MSG_##NAME, (to)))
/* Everything put out was expected. */
static inline void expect_nothing_else(struct talk *t)
{
    char text[400];

    for (uint32_t i = 0; i < t->out.n; i++)
        if (!t->taken[i] && t->out.v[i].type != MSG_NODE_CHANGED) { /* for the log */
            msg_format(&t->out.v[i], text, sizeof text);
            fail_msg("not expected, to %u: %s", t->out.v[i].peer, text);
        }
}

/* How many of this type, to anybody. */
static inline uint32_t count_out(const struct talk *t, unsigned type)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->out.n; i++)
        n += t->out.v[i].type == type;
    return n;
}

/* How many of this type to this link were not expected before. */
static inline uint32_t count_out_to(struct talk *t, unsigned type, uint32_t to)
{
    uint32_t n = 0;

    while (find_out(t, type, to))
        n++;
    return n;
}

/* Lets time pass, with every timer at its time; what they put out is collected. */
static inline void pass(struct talk *t, int64_t us)
{
    int64_t end_us = t->now_us + us, due_us;

    talk_clear(t);
    while ((due_us = central_next_timeout(t->c)) <= end_us) {
        uint32_t from = t->out.n;

        t->now_us = due_us > t->now_us ? due_us : t->now_us;
        talk_step(t, &(struct msg){.type = MSG_TIMER});
        if (!t->journal_by_hand)
            talk_journal(t, from);
    }
    t->now_us = end_us;
}

/* ---- Beginnings ---- */

static inline void talk_config(struct talk *t)
{
    *t = (struct talk){.now_us = 1000 * S};
    central_config_init(&t->config);
    t->config.cluster = 77;
    t->config.heartbeats = false; /* where silence is not the subject */
    t->config.history.share_fixed = true;
    t->config.history.share_ppm = 0;
}

static inline void talk_start(struct talk *t)
{
    t->c = central_new(&t->config);
    tell(t, START, start, 0, 0);
}

static inline void talk_begin(struct talk *t)
{
    talk_config(t);
    talk_start(t);
    tell(t, RECOVERED, recovered, 0, 0);
}

static inline void talk_end(struct talk *t)
{
    central_free(t->c);
    out_clear(&t->out);
    out_free(&t->out);
    free(t->taken);
}

struct join {
    const char *name, *addr;
    uint64_t incarnation;
    uint32_t slots;
    enum role role;
    uint32_t node;    /* what it was before; 0: a process that never joined */
    uint64_t cluster; /* where; 0 */
};

static inline void join_on(struct talk *t, uint32_t link, struct join j)
{
    struct blob *name = blob_str(j.name), *addr = blob_str(j.addr ? j.addr : j.name);

    tell(t, JOIN, join, link, .name = name, .addr = addr, .incarnation = j.incarnation ? j.incarnation : 1,
         .slots = j.slots, .version = PROTOCOL_VERSION, .role = j.role, .node = {j.node},
         .cluster = j.cluster);
    blob_drop(name);
    blob_drop(addr);
}

/* A new stream, and what comes first on it. Returns the stream's number. */
static inline uint32_t join(struct talk *t, struct join j)
{
    uint32_t link = ++t->links;

    tell(t, PEER_UP, peer_up, link, .role = j.role);
    join_on(t, link, j);
    return link;
}

static inline void ack_partition(struct talk *t, uint32_t link)
{
    uint32_t epoch = expect(t, PARTITION, partition, link)->epoch;

    tell(t, PARTITION_ACK, partition_ack, link, .epoch = epoch);
}

/* A worker that joined and knows its partition. */
static inline uint32_t add_worker(struct talk *t, const char *name, uint32_t slots)
{
    uint32_t link = join(t, (struct join){.name = name, .slots = slots, .role = ROLE_WORKER});

    ack_partition(t, link);
    tell(t, HELD_END, held_end, link, 0);
    return link;
}

static inline uint32_t add_dist(struct talk *t, const char *name)
{
    return join(t, (struct join){.name = name, .role = ROLE_DIST});
}

/* For longer than a lease central hears of the first n links alone. */
static inline void hear_alone(struct talk *t, uint32_t n)
{
    for (int i = 0; i < 70; i++) {
        pass(t, S);
        for (uint32_t link = 1; link <= n; link++)
            tell(t, HEARTBEAT, heartbeat, link, .seq = 1);
    }
}

/* ---- Long jobs ---- */

#define JOB(dist, seq) job_id_make((node_id_t){dist}, (seq))

static inline struct job_desc *desc_of(const char *name, uint32_t tasks)
{
    struct job_desc *d = job_desc_new();

    d->tasks = tasks;
    d->kind = PAYLOAD_TIMER;
    blob_drop(d->name);
    d->name = blob_str(name);
    return d;
}

/* Tasks at most once, that would have retries otherwise. */
static inline struct job_desc *once_desc(uint32_t tasks)
{
    struct job_desc *d = desc_of("", tasks);

    d->flags |= JOB_AT_MOST_ONCE;
    d->lost_retries = 5;
    return d;
}

static inline void submit(struct talk *t, uint32_t dist, uint64_t seq, uint32_t tasks, int64_t estimate_us)
{
    struct job_desc *d = desc_of("", tasks);

    tell(t, LONG_SUBMIT, long_submit, dist, .job = JOB(dist, seq), .desc = d, .estimate_us = estimate_us,
         .epoch = 1);
    job_desc_drop(d);
}

static inline struct try_id try_of(uint32_t dist, uint64_t seq, uint32_t task, uint16_t attempt)
{
    return (struct try_id){.job = JOB(dist, seq), .task = task, .epoch = 1, .attempt = attempt};
}

static inline void started(struct talk *t, uint32_t worker, struct try_id id)
{
    tell(t, TASK_STARTED, task_started, worker, .id = id);
}

static inline void finished(struct talk *t, uint32_t worker, struct try_id id, enum outcome outcome, int code,
                            int64_t run_us)
{
    tell(t, TASK_FINISHED, task_finished, worker, .id = id, .outcome = (uint8_t)outcome, .code = code,
         .run_us = run_us);
}

/* A dist and as many one-slot workers as asked for; their streams are d, w[0], w[1] … */
struct cluster {
    struct talk t;
    uint32_t d;
    uint32_t w[8];
};

static inline void begin(struct cluster *c, uint32_t workers)
{
    char name[16];

    talk_begin(&c->t);
    c->d = add_dist(&c->t, "d1");
    for (uint32_t i = 0; i < workers; i++) {
        snprintf(name, sizeof name, "w%u", i);
        c->w[i] = add_worker(&c->t, name, 1);
    }
    pass(&c->t, 1 * S); /* member lists are out */
}

/* Without workers; long tasks are bound late. */
static inline void begin_late_bare(struct cluster *c)
{
    talk_config(&c->t);
    c->t.config.policy.flags |= POLICY_LATE_LONG;
    talk_start(&c->t);
    tell(&c->t, RECOVERED, recovered, 0, 0);
    c->d = add_dist(&c->t, "d1");
}

static inline void end(struct cluster *c) { talk_end(&c->t); }

/* A worker reports that it could not start this task. */
static inline void cannot_start(struct talk *t, uint32_t worker, struct try_id id)
{
    struct blob *why = blob_str("no such directory");

    tell(t, TASK_FINISHED, task_finished, worker, .id = id, .outcome = OUTCOME_LOST,
         .code = HAWK_ECANNOT_START, .result = why);
    blob_drop(why);
}

/* The next report of a task to the dist: this task, in this state. */
static inline const struct msg_long_task *expect_task(struct cluster *c, uint32_t task, enum task_state state)
{
    const struct msg_long_task *m = expect(&c->t, LONG_TASK, long_task, c->d);

    if (m->id.task != task || m->state != state)
        fail_msg("task %u is %s, not: task %u is %s", m->id.task, task_state_text(m->state), task,
                 task_state_text(state));
    return m;
}

static inline struct central_totals totals(const struct cluster *c)
{
    struct central_totals v;

    central_view_totals(c->t.c, &v);
    return v;
}

/* The view of the dist's n-th job. */
static inline struct job_view view_of(const struct cluster *c, uint32_t n)
{
    const struct long_job *j = central_find_job(c->t.c, JOB(c->d, n));
    struct job_view v;

    assert_non_null(j);
    central_job_view(c->t.c, j, c->t.now_us, &v);
    return v;
}

static inline bool general(struct talk *t, uint32_t node)
{
    struct central_node v;

    assert_true(central_view_node(t->c, (node_id_t){node}, t->now_us, &v));
    return v.member.general;
}

/* The end of the next job that has ended is journalled once its watchers have certainly heard of it. */
static inline enum job_state expect_end(struct cluster *c)
{
    expect_none(&c->t, JOURNAL_JOB_END, 0);
    pass(&c->t, 6 * S);
    return (enum job_state)expect(&c->t, JOURNAL_JOB_END, journal_job_end, 0)->state;
}

static inline void expect_forgotten(struct cluster *c)
{
    struct central_totals v = totals(c);

    assert_true(central_quiet(c->t.c));
    assert_int_equal(v.long_jobs, 0);
    assert_int_equal(v.long_tasks, 0);
    pass(&c->t, 12 * S); /* the times in which a dist may still ask */
    tell(&c->t, LONG_WATCH, long_watch, c->d, .job = JOB(c->d, 1), .epoch = 1);
    assert_int_equal(expect(&c->t, LONG_WATCHED, long_watched, c->d)->err, HAWK_ENOT_FOUND);
}

#endif
