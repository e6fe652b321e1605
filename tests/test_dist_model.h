/* What the model of a dist's surroundings (test_dist_model.c) is made of, and its journal. */
#ifndef HAWK_TESTS_TEST_DIST_MODEL_H
#define HAWK_TESTS_TEST_DIST_MODEL_H

#include "tests/test_dist.h"

#include "base/list.h"

#define WORKERS 6
#define FIRST 101
#define JOBS_MAX 64
#define TRIES_MAX 256 /* that a worker has at a time */
#define TASKS_MAX 24
#define QUEUE 4096
#define SEEDS 400
#define CHAOS_STEPS 1500

/* ---- Streams: FIFO, and what is lost is lost at the end, followed by PEER_LOST ---- */

struct fifo {
    struct msg v[QUEUE];
    uint32_t head, n;
};

static void fifo_put(struct fifo *q, const struct msg *m)
{
    assert_true(q->n < QUEUE);
    q->v[(q->head + q->n++) % QUEUE] = *m;
}

static struct msg fifo_get(struct fifo *q)
{
    struct msg m = q->v[q->head];

    q->head = (q->head + 1) % QUEUE;
    q->n--;
    return m;
}

static void fifo_cut(struct fifo *q, uint32_t keep)
{
    while (q->n > keep)
        msg_drop(&q->v[(q->head + --q->n) % QUEUE]);
}

struct link {
    struct fifo to_dist, to_peer;
    bool dist_up, peer_up; /* as each side sees it */
    bool broken;           /* what is put in now is lost */
};

/* ---- The model ---- */

struct entry {
    job_id_t job;
    uint32_t count;
};
enum try_state { FREE, LAUNCHED, RUNNING, ENDED };
struct attempt {
    struct try_id id;
    enum try_state state;
    uint8_t outcome;
    int32_t code;
};
struct worker {
    struct link link;
    struct entry queue[256];
    uint32_t queued;
    struct entry asked[4]; /* requests without an answer; count is the request's number */
    uint32_t asks;
    struct attempt tries[TRIES_MAX];
    uint32_t slots, next_request;
    uint8_t state; /* as central says: enum member_state */
    bool general;
};
struct loot {
    job_id_t job;
    uint32_t count, victim, thief;
    bool at_victim; /* the victim keeps it until it is acknowledged */
    bool offered;   /* on its way to the thief */
};
struct long_job {
    job_id_t job;
    uint16_t epoch;
    uint32_t n;
    struct {
        uint32_t task;
        uint16_t attempt;
        uint8_t state;
    } t[TASKS_MAX];
};
struct fate { /* of a job, as the dist tells it */
    job_id_t job;
    uint32_t tasks;
    bool ended, refused;
    bool detached, once;
    bool durable;             /* the journal had it */
    bool gone;                /* its dist died, and nobody had promised to keep it */
    bool cancelled;           /* its client was told so */
    bool early;               /* it ended in the step that accepted it: nobody could watch its tasks */
    uint8_t final[TASKS_MAX]; /* state; TASK_WAITING: none yet */
};
struct row { /* of the journal: what is durable of one job */
    job_id_t id;
    struct msg job;             /* MSG_NONE: nothing */
    struct msg cancel;          /* likewise */
    struct msg end;             /* JOURNAL_ENDED, likewise */
    struct msg ends[TASKS_MAX]; /* JOURNAL_TASK, of its end, or of a launch; MSG_NONE: none */
};
struct launched { /* a task's tries so far, in whatever life, and where the last one was sent */
    uint32_t n, worker, life;
    uint32_t tries[64]; /* epoch and attempt */
};
struct model {
    struct talk *t;
    struct rng rng;
    struct worker w[WORKERS];
    struct loot loot[16];
    struct link central;
    bool central_joined;
    struct long_job longs[JOBS_MAX];
    uint32_t longs_n;
    struct fate fates[JOBS_MAX];
    bool ran[JOBS_MAX + 1][TASKS_MAX]; /* by job's sequence number: somebody ran it to its end */
    struct row rows[JOBS_MAX];         /* by client */
    struct msg writing[QUEUE];         /* not durable yet */
    uint32_t writing_n;
    struct launched launched[JOBS_MAX + 1][TASKS_MAX]; /* by job's sequence number */
    uint32_t restarts, read_back, read_back_ended;
    uint32_t jobs;
    bool tracing;
    bool calm; /* nothing is refused, broken or forgotten any more */
    uint32_t short_ended, long_ended, lost, cancelled;
};

static uint32_t below(struct model *m, uint32_t n) { return (uint32_t)rng_below(&m->rng, n); }
static bool chance(struct model *m, uint32_t percent) { return below(m, 100) < percent; }
static bool trouble(struct model *m, uint32_t percent) { return !m->calm && chance(m, percent); }

static struct fate *fate_of(struct model *m, job_id_t job)
{
    for (uint32_t i = 0; i < m->jobs; i++)
        if (job_eq(m->fates[i].job, job))
            return &m->fates[i];
    return NULL;
}

/* What the journal has of a task: whether it ended. */
static bool has_end(const struct row *r, uint32_t task)
{
    return r->ends[task].type != MSG_NONE && task_state_final(r->ends[task].journal_task.state);
}

/* ---- What the dist does ---- */

/* The one that the user submitted as this; desc->shell says which. */
static struct row *row_of(struct model *m, job_id_t job)
{
    for (uint32_t i = 0; i < m->jobs; i++)
        if (job_eq(m->rows[i].id, job))
            return &m->rows[i];
    return NULL;
}

static void note_submitted(struct model *m, const struct msg_submitted *s)
{
    struct fate *f = &m->fates[s->client];
    const struct dist_job *job;

    assert_int_equal(f->job.v, 0);
    if (s->err) {
        f->refused = f->ended = true;
        return;
    }
    f->job = s->job;
    assert_true(f->durable || !f->detached || !m->t->cfg.journal);
    /* Central's first news of a job may be what accepts it: nobody watched then. */
    job = dist_find(&m->t->d, s->job);
    f->early = !job;
    for (uint32_t i = 0; job && i < f->tasks; i++) {
        struct task_view v;

        dist_task_view(&m->t->d, job, i, m->t->now, &v);
        if (task_state_final(v.state))
            f->final[i] = v.state;
    }
}

static void note_task(struct model *m, const struct msg_task_event *e)
{
    struct fate *f = fate_of(m, e->id.job);

    assert_non_null(f);
    /* One end per task, and only of what ran. */
    assert_int_equal(f->final[e->id.task], TASK_WAITING);
    if (!task_state_final(e->state))
        return;
    f->final[e->id.task] = e->state;
    if (e->state == TASK_DONE || e->state == TASK_FAILED)
        assert_true(m->ran[job_id_seq(e->id.job)][e->id.task]);
}

static void note_job(struct model *m, const struct msg_job_event *e)
{
    struct fate *f = fate_of(m, e->job);

    if (!job_state_final(e->state))
        return;
    assert_non_null(f);
    assert_false(f->ended);
    f->ended = true;
    for (uint32_t i = 0; i < f->tasks && !f->early; i++) {
        assert_true(task_state_final(f->final[i]));
        m->lost += f->final[i] == TASK_LOST;
    }
    m->cancelled += e->state == JOB_CANCELLED;
}

static void step(struct model *m, const struct msg *in);

/* ---- The journal: it writes in order, some of it at a time ---- */

static void row_clear(struct row *r)
{
    job_id_t id = r->id;

    msg_drop(&r->job);
    *r = (struct row){.id = id};
}

static void write_job(struct model *m, struct row *r, const struct msg *x)
{
    struct msg old = r->job;

    if (!x->journal_job.desc && old.type == MSG_NONE)
        return;
    r->job = *x;
    if (!x->journal_job.desc) {
        r->job.journal_job.desc = old.journal_job.desc;
        r->end.type = MSG_NONE;
    }
    msg_ref(&r->job);
    msg_drop(&old);
    m->fates[r - m->rows].durable = true;
}

static void write_one(struct model *m, const struct msg *x)
{
    struct row *r = row_of(m, msg_job(x));
    const struct msg_journal_task *old;

    assert_non_null(r);
    switch (x->type) {
    case MSG_JOURNAL_JOB:
        write_job(m, r, x);
        break;
    case MSG_JOURNAL_CANCEL:
        if (r->job.type != MSG_NONE)
            r->cancel = *x;
        break;
    case MSG_JOURNAL_TASK:
        old = &r->ends[x->journal_task.id.task].journal_task;
        /* A completion counts once; it may be written twice. */
        assert_true(old->id.attempt == 0 || !has_end(r, x->journal_task.id.task) ||
                    (try_eq(&old->id, &x->journal_task.id) && old->state == x->journal_task.state));
        r->ends[x->journal_task.id.task] = *x;
        break;
    case MSG_JOURNAL_ENDED:
        if (r->job.type != MSG_NONE)
            r->end = *x;
        break;
    default:
        row_clear(r);
    }
}

static void journal_says(struct model *m, uint64_t token, int err)
{
    step(m, &(struct msg){.type = MSG_JOURNAL_DONE, .journal_done = {.token = token, .err = err}});
}

/* The first n of what waits is durable. */
static uint64_t write_some(struct model *m, uint32_t n)
{
    uint64_t token = 0;

    for (uint32_t i = 0; i < n; i++) {
        token = msg_journal_token(&m->writing[i]);
        write_one(m, &m->writing[i]);
        msg_drop(&m->writing[i]);
    }
    m->writing_n -= n;
    memmove(m->writing, m->writing + n, m->writing_n * sizeof *m->writing);
    return token;
}

static void journal(struct model *m, const struct msg *x)
{
    if (x->type == MSG_JOURNAL_JOB && x->journal_job.desc)
        m->rows[x->journal_job.desc->shell].id = x->journal_job.job;
    if (trouble(m, 5)) {
        journal_says(m, msg_journal_token(x), HAWK_ELIMIT); /* it is full, and does not even take it */
        return;
    }
    assert_true(m->writing_n < QUEUE);
    m->writing[m->writing_n] = *x;
    msg_ref(&m->writing[m->writing_n++]);
}

static bool journal_moves(struct model *m)
{
    uint32_t n = m->writing_n;

    if (n == 0 || trouble(m, 60))
        return false;
    if (trouble(m, 20))
        journal_says(m, msg_journal_token(&m->writing[n - 1]), HAWK_EIO); /* it keeps it, and tries again */
    else
        journal_says(m, write_some(m, below(m, n) + 1), 0);
    return true;
}

#endif
