/* A dist to talk to, for tests that read as protocol conversations: what it hears, and every line that it says. */
#ifndef HAWK_TESTS_TEST_DIST_H
#define HAWK_TESTS_TEST_DIST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/units.h"
#include "dist/dist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ME 3 /* the dist's node */
#define CENTRAL NODE_CENTRAL.v

struct talk {
    struct dist d;
    struct dist_config cfg;
    struct out out;
    bool *heard; /* by line of out */
    uint32_t lines;
    int64_t now;
};

static inline job_id_t J(uint64_t seq) { return job_id_make((node_id_t){ME}, seq); }
static inline struct try_id try_of(uint64_t seq, uint32_t task, uint16_t epoch, uint16_t attempt)
{
    return (struct try_id){.job = J(seq), .task = task, .epoch = epoch, .attempt = attempt};
}

/* "5 PROBE job=3.1 …"; effects begin with "-", what goes to central with "central". */
static inline const char *talk_line(const struct talk *t, uint32_t i, char *buf, size_t size)
{
    const struct msg *m = &t->out.v[i];
    int n;

    if (m->peer == CENTRAL)
        n = snprintf(buf, size, "central ");
    else if (m->peer == 0)
        n = snprintf(buf, size, "- ");
    else
        n = snprintf(buf, size, "%u ", (unsigned)m->peer);
    msg_format(m, buf + n, size - (size_t)n);
    return buf;
}

/* Nothing that it said is left that the test did not ask for. */
static inline void silent(struct talk *t)
{
    char line[512];

    for (uint32_t i = 0; i < t->out.n; i++)
        if (!t->heard[i])
            fail_msg("it also said: %s", talk_line(t, i, line, sizeof line));
}

/* Forgets what it said so far. */
static inline void ignore(struct talk *t)
{
    out_clear(&t->out);
    t->lines = 0;
}

static inline void hear_msg(struct talk *t, struct msg m)
{
    const struct event e = {.now_us = t->now, .m = m};

    silent(t);
    ignore(t);
    dist_step(&t->d, &e, &t->out);
    dist_check(&t->d);
    t->heard = xrealloc(t->heard, t->out.n + 1);
    memset(t->heard, 0, t->out.n + 1);
}
#define HEAR(t, from, NAME, name, ...)                                                                       \
    hear_msg((t), (struct msg){.type = MSG_##NAME, .peer = (from), .name = {__VA_ARGS__}})

/* The first thing not yet asked for that it said to this peer begins with this text. Order matters per peer only:
 * nothing may rely on an order across streams. */
static inline void says(struct talk *t, const char *text)
{
    char line[512];
    size_t peer = strcspn(text, " ") + 1;

    for (uint32_t i = 0; i < t->out.n; i++) {
        if (t->heard[i] || strncmp(talk_line(t, i, line, sizeof line), text, peer) != 0)
            continue;
        if (strncmp(line, text, strlen(text)) != 0)
            fail_msg("expected: %s\n     but it said: %s", text, line);
        t->heard[i] = true;
        return;
    }
    fail_msg("expected: %s\n     but it said nothing to that peer", text);
}

/* Lets time pass until its next timer, which must be at most `within_us` away, and steps it. */
static inline void wait_timer(struct talk *t, int64_t within_us)
{
    int64_t at = dist_next_timeout(&t->d);

    assert_true(at != TIME_NEVER);
    assert_true(at <= t->now + within_us);
    if (at > t->now)
        t->now = at;
    HEAR(t, 0, TIMER, timer, 0);
}

/* ---- Cast ---- */

static inline void worker_member(struct talk *t, uint32_t node, uint32_t slots, enum member_state state,
                                 bool general)
{
    struct blob *addr = blob_str("127.0.0.1:1"), *name = blob_str("w");

    HEAR(t, CENTRAL, MEMBER, member, .addr = addr, .name = name, .node = {node}, .slots = slots,
         .role = ROLE_WORKER, .state = state, .general = general);
    blob_drop(addr);
    blob_drop(name);
}

static inline void worker_up(struct talk *t, uint32_t node, uint32_t slots, bool general)
{
    worker_member(t, node, slots, MEMBER_UP, general);
    HEAR(t, node, PEER_UP, peer_up, .role = ROLE_WORKER);
}

static inline void central_joins(struct talk *t)
{
    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL);
    says(t, "central JOIN name=\"d\" addr=\"a\" incarnation=77");
    HEAR(t, CENTRAL, JOINED, joined, .cluster = 1, .heartbeat_us = 500000, .lease_us = 60000000,
         .node = {ME});
}

static inline struct talk *talk_new(const char *policy)
{
    struct talk *t = xcalloc(1, sizeof *t);

    dist_config_init(&t->cfg);
    assert_int_equal(policy_preset(policy, &t->cfg.policy), 0);
    t->cfg.name = blob_str("d");
    t->cfg.addr = blob_str("a");
    t->cfg.incarnation = 77;
    t->cfg.journal = true;
    t->cfg.heartbeats = false;
    t->now = US_PER_S;
    return t;
}

static inline void talk_begin(struct talk *t) { dist_init(&t->d, &t->cfg, 4711); }

/* A dist that has joined, and this many one-slot general workers: 101, 102, … */
static inline struct talk *talk_joined(const char *policy, uint32_t workers)
{
    struct talk *t = talk_new(policy);

    talk_begin(t);
    central_joins(t);
    for (uint32_t i = 0; i < workers; i++)
        worker_up(t, 101 + i, 1, true);
    return t;
}

static inline void talk_end(struct talk *t)
{
    silent(t);
    dist_free(&t->d);
    out_free(&t->out);
    free(t->heard);
    blob_drop(t->cfg.name);
    blob_drop(t->cfg.addr);
    free(t);
}

static inline struct job_desc *desc_new(uint32_t tasks, const char *name)
{
    struct job_desc *desc = job_desc_new();

    desc->tasks = tasks;
    desc->kind = PAYLOAD_COMMAND;
    strings_add(&desc->argv, "true");
    blob_drop(desc->name);
    desc->name = blob_str(name);
    return desc;
}

/* Submits desc, and gives up the reference. */
static inline void submit(struct talk *t, struct job_desc *desc)
{
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .client = 9);
    job_desc_drop(desc);
}

static inline void submit_long(struct talk *t, uint32_t tasks, uint32_t flags)
{
    struct job_desc *desc = desc_new(tasks, "big");

    desc->estimate_us = 100 * US_PER_S;
    desc->flags = flags;
    submit(t, desc);
}

static inline void request(struct talk *t, uint32_t worker, uint64_t seq, uint32_t number)
{
    HEAR(t, worker, TASK_REQUEST, task_request, .job = J(seq), .request = number);
}

static inline void started(struct talk *t, uint32_t worker, struct try_id id)
{
    HEAR(t, worker, TASK_STARTED, task_started, .id = id);
}

static inline void finished(struct talk *t, uint32_t worker, struct try_id id, int32_t code, int64_t run_us)
{
    HEAR(t, worker, TASK_FINISHED, task_finished, .id = id, .outcome = OUTCOME_EXITED, .code = code,
         .run_us = run_us);
}

static inline struct job_view job_view_of(const struct talk *t, uint64_t seq)
{
    struct job_view v;
    const struct dist_job *job = dist_find(&t->d, J(seq));

    assert_non_null(job);
    dist_job_view(&t->d, job, t->now, &v);
    return v;
}

static inline struct task_view task_view_of(const struct talk *t, uint64_t seq, uint32_t task)
{
    struct task_view v;

    dist_task_view(&t->d, dist_find(&t->d, J(seq)), task, t->now, &v);
    return v;
}

static inline enum dist_block block_of(const struct talk *t, uint64_t seq)
{
    uint32_t n;

    return dist_blocked(&t->d, dist_find(&t->d, J(seq)), &n);
}

/* A short job's description. */
static inline struct job_desc *tagged(uint32_t tasks)
{
    struct job_desc *desc = desc_new(tasks, "");

    desc->tag = TAG_SHORT;
    return desc;
}

/* A dist with central and a worker, which gives up jobs that nobody watches after that time. */
static inline struct talk *talk_grace(int64_t grace_us)
{
    struct talk *t = talk_new("hawk");

    t->cfg.client_grace_us = grace_us;
    talk_begin(t);
    central_joins(t);
    worker_up(t, 101, 1, true);
    return t;
}

#endif
