/* A virtual cluster for tests. */
#include "tests/lib/cluster.h"

#include "base/check.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- What the bus calls ---- */

static int64_t delay_us(void *arg, uint32_t from, uint32_t to, const struct msg *m)
{
    return ((struct cluster *)arg)->config.delay_us;
}

static struct cluster_worker *worker_of(struct cluster *c, uint32_t ep)
{
    for (uint32_t i = 0; i < c->workers_n; i++)
        if (c->workers[i]->ep == ep)
            return c->workers[i];
    return NULL;
}

static struct cluster_dist *dist_of(struct cluster *c, uint32_t ep)
{
    for (uint32_t i = 0; i < c->dists_n; i++)
        if (c->dists[i]->ep == ep)
            return c->dists[i];
    return NULL;
}

/* Streams are FIFO: what comes behind the word that it is reserved was placed after it (DESIGN 3.7). */
static void expect_general(struct cluster *c, uint32_t ep)
{
    struct cluster_worker *w = worker_of(c, ep);
    struct worker_counts counts;

    if (!w)
        return;
    worker_counts(&w->w, &counts);
    if (!counts.general)
        fail_msg("a long task was placed on %u, which is reserved", ep);
}

/* Steals and cancels move counts (DESIGN 3.2): who asks for a task has a reservation there in its dist's eyes, unless
 * the job is over or may be withdrawn (promoted), when the question may cross a cancel. */
static void expect_reservation(struct cluster *c, uint32_t ep, uint32_t from,
                               const struct msg_task_request *m)
{
    struct cluster_dist *d = dist_of(c, ep);
    struct cluster_worker *w = worker_of(c, from);
    const struct dist_job *j = d && w ? dist_find(&d->d, m->job) : NULL;
    struct reservation_view r;
    const void *cursor = NULL;
    struct job_view v;

    if (!j)
        return;
    dist_job_view(&d->d, j, bus_now(c->bus), &v);
    if (job_state_final(v.state) || node_eq(v.owner, NODE_CENTRAL) || v.desc->tag == TAG_AUTO ||
        c->jobs[v.desc->shell - 1]->cancelled || v.waiting == 0)
        return;
    while (dist_next_reservation(&d->d, j, &cursor, &r))
        if (node_eq(r.worker, worker_node(&w->w)) && r.count > 0)
            return;
    fail_msg("worker %u asks for a task of %s, and its dist knows of no reservation there", from,
             job_id_format((char[JOB_ID_TEXT]){0}, m->job));
}

static void hash_bytes(uint64_t *hash, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *hash = (*hash ^ ((const uint8_t *)data)[i]) * UINT64_C(1099511628211);
}

static void on_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m)
{
    struct cluster *c = arg;
    char line[300];
    size_t n;

    if (msg_is_wire(m) && msg_check(m) != 0) {
        msg_format(m, line, sizeof line);
        fail_msg("%u sent %u what no codec would pass: %s", from, to, line);
    }
    if (m->type == MSG_TASK_REQUEST && c->config.nothing_fails)
        expect_reservation(c, to, from, &m->task_request);
    if (m->type == MSG_TASK_ENQUEUE)
        expect_general(c, to);
    if (m->type == MSG_STEAL_HINT && worker_of(c, to))
        worker_of(c, to)->parked_us = TIME_NEVER; /* it has a victim to ask */
    if (m->type == MSG_STEAL_LOOT && m->steal_loot.items > 0 && worker_of(c, from))
        worker_of(c, from)->stuck_us = TIME_NEVER;
    n = msg_format(m, line, sizeof line);
    hash_bytes(&c->hash, &now_us, sizeof now_us);
    hash_bytes(&c->hash, &to, sizeof to);
    hash_bytes(&c->hash, line, n);
    if (c->trace)
        fprintf(stderr, "%12lld %3u > %3u %s\n", (long long)now_us, from, to, line);
}

/* A job's tasks by state add up to all of them, at any time. */
static void check_books(const struct dist *d, int64_t now_us)
{
    for (const struct dist_job *j = dist_newest(d); j; j = dist_older(d, j)) {
        struct job_view v;

        dist_job_view(d, j, now_us, &v);
        assert_int_equal(v.desc->tasks, v.waiting + v.running + v.done + v.failed + v.cancelled + v.lost);
    }
}

/* Central's estimates of how long its workers are busy with long work. */
static void check_waiting(const struct cluster *c, int64_t now_us)
{
    for (node_id_t n = central_next_node(c->central, NODE_NONE); n.v; n = central_next_node(c->central, n)) {
        struct central_node v;

        assert_true(central_view_node(c->central, n, now_us, &v));
        assert_true(v.wait_us >= 0);
    }
}

static void since(int64_t *at_us, bool is, int64_t now_us)
{
    if (!is)
        *at_us = TIME_NEVER;
    else if (*at_us == TIME_NEVER)
        *at_us = now_us;
}

/* DESIGN 3.4: no thief is left alone beside a reservation that is. Who got a hint has somebody to ask, and who gave
 * loot has another group stuck: their time starts again. */
static void check_stuck(struct cluster *c, int64_t now_us)
{
    int64_t parked_us = TIME_NEVER, stuck_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->workers_n; i++) {
        struct cluster_worker *w = c->workers[i];
        struct worker_counts counts = {0};

        if (w->alive)
            worker_counts(&w->w, &counts);
        since(&w->parked_us, counts.parked, now_us);
        since(&w->stuck_us, counts.stuck && !counts.parked, now_us);
        parked_us = w->parked_us < parked_us ? w->parked_us : parked_us;
        stuck_us = w->stuck_us < stuck_us ? w->stuck_us : stuck_us;
    }
    if (parked_us != TIME_NEVER && stuck_us != TIME_NEVER &&
        now_us - (parked_us > stuck_us ? parked_us : stuck_us) > c->config.stuck_us_max)
        fail_msg("a reservation is stuck since %lld us, a thief parked since %lld us",
                 (long long)(now_us - stuck_us), (long long)(now_us - parked_us));
}

static void on_stepped(void *arg, uint32_t ep, int64_t now_us)
{
    struct cluster *c = arg;
    struct cluster_worker *w = worker_of(c, ep);
    struct cluster_dist *d = dist_of(c, ep);

    c->steps++;
    if (c->config.stuck_us_max)
        check_stuck(c, now_us);
    if (ep == c->central_ep) {
        central_check(c->central);
        check_waiting(c, now_us);
    } else if (w) {
        worker_check(&w->w);
    } else if (d) {
        dist_check(&d->d);
        check_books(&d->d, now_us);
    }
}

/* ---- The executor ---- */

/* Is central the owner of this run of w? */
static bool is_of_central(const struct cluster *c, const struct cluster_worker *w, uint32_t run)
{
    struct worker_running r;

    for (uint32_t slot = 0; slot < w->slots; slot++)
        if (worker_running(&w->w, slot, bus_now(c->bus), &r) && r.run == run)
            return node_eq(r.owner, NODE_CENTRAL);
    fail_msg("run %u was started without a slot", run);
    return false;
}

/* DESIGN 3.9: never two copies of a task that central placed, whatever was lost. */
static void expect_only_copy(const struct cluster *c, const struct try_id *id)
{
    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t j = 0; j < c->workers[i]->runs_n; j++) {
            const struct cluster_run *r = &c->workers[i]->runs[j];

            if (r->of_central && job_eq(r->id.job, id->job) && r->id.task == id->task)
                fail_msg("task %u of %s starts while worker %u still runs it", id->task,
                         job_id_format((char[JOB_ID_TEXT]){0}, id->job), i);
        }
}

static void exec_start(struct cluster *c, struct cluster_worker *w, const struct msg_exec_start *m)
{
    struct msg started = {.type = MSG_EXEC_STARTED, .exec_started = {.run = m->run, .pid = 1}};
    struct cluster_run *run;
    bool of_central;
    uint32_t job = (uint32_t)m->desc->shell - 1;

    assert_true(job < c->jobs_n && m->id.task < m->desc->tasks);
    assert_true(job_eq(m->id.job, c->jobs[job]->id));
    assert_true(w->runs_n < w->slots);
    of_central = is_of_central(c, w, m->run);
    if (of_central)
        expect_only_copy(c, &m->id);
    vec_grow(w->runs, w->runs_n, w->runs_cap);
    run = &w->runs[w->runs_n++];
    *run = (struct cluster_run){.run = m->run,
                                .id = m->id,
                                .start_us = bus_now(c->bus),
                                .due_us = bus_now(c->bus) + c->jobs[job]->duration_us[m->id.task],
                                .job = job,
                                .of_central = of_central};
    c->jobs[job]->starts[m->id.task]++;
    bus_post(c->bus, w->ep, bus_now(c->bus), &started);
}

static void exec_exited(struct cluster *c, struct cluster_worker *w, uint32_t i, enum outcome outcome,
                        int32_t code)
{
    struct msg m = {.type = MSG_EXEC_EXITED,
                    .exec_exited = {.run_us = bus_now(c->bus) - w->runs[i].start_us,
                                    .run = w->runs[i].run,
                                    .outcome = (uint8_t)outcome,
                                    .code = code}};

    w->runs[i] = w->runs[--w->runs_n];
    bus_post(c->bus, w->ep, bus_now(c->bus), &m);
}

static void exec_kill(struct cluster *c, struct cluster_worker *w, uint32_t run)
{
    for (uint32_t i = 0; i < w->runs_n; i++)
        if (w->runs[i].run == run) {
            exec_exited(c, w, i, OUTCOME_SIGNALED, 15);
            return;
        }
}

/* Whose run is due first, over all workers; NULL: nothing runs. */
static struct cluster_worker *first_due(struct cluster *c, uint32_t *run)
{
    struct cluster_worker *w = NULL;
    int64_t due_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t j = 0; j < c->workers[i]->runs_n; j++)
            if (c->workers[i]->runs[j].due_us < due_us) {
                w = c->workers[i];
                *run = j;
                due_us = w->runs[j].due_us;
            }
    return w;
}

/* ---- The journal ---- */

static void journal(struct cluster *c, uint32_t ep, const struct msg *m, uint64_t token)
{
    struct msg done = {.type = MSG_JOURNAL_DONE, .journal_done = {.token = token}};

    if (ep == c->central_ep) {
        msg_ref(m);
        vec_grow(c->journal, c->journal_n, c->journal_cap);
        c->journal[c->journal_n++] = *m;
    }
    bus_post(c->bus, ep, bus_now(c->bus) + c->config.journal_us, &done);
}

static uint16_t epoch_of(const struct msg *m)
{
    return m->type == MSG_JOURNAL_JOB      ? m->journal_job.epoch
           : m->type == MSG_JOURNAL_TASK   ? m->journal_task.id.epoch
           : m->type == MSG_JOURNAL_CANCEL ? m->journal_cancel.epoch
                                           : m->journal_job_end.epoch;
}

/* Is this record about a job that ended, under the same epoch? Of those nothing is replayed. */
static bool is_over(const struct cluster *c, const struct msg *m)
{
    for (uint32_t i = 0; i < c->journal_n; i++) {
        const struct msg *end = &c->journal[i];

        if (end->type == MSG_JOURNAL_JOB_END && job_eq(end->journal_job_end.job, msg_job(m)) &&
            epoch_of(end) == epoch_of(m))
            return true;
    }
    return false;
}

static void replay_journal(struct cluster *c)
{
    struct msg recovered = {.type = MSG_RECOVERED};

    for (uint32_t i = 0; i < c->journal_n; i++) {
        const struct msg *m = &c->journal[i];

        if (msg_job(m).v && is_over(c, m))
            continue;
        msg_ref(m);
        bus_post(c->bus, c->central_ep, bus_now(c->bus), m);
    }
    bus_post(c->bus, c->central_ep, bus_now(c->bus), &recovered);
}

/* ---- The client ---- */

static struct cluster_job *job_by_id(struct cluster *c, job_id_t id)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (c->jobs[i]->submitted && job_eq(c->jobs[i]->id, id))
            return c->jobs[i];
    return NULL;
}

static void on_submitted(struct cluster *c, uint32_t ep, const struct msg_submitted *m)
{
    struct cluster_job *j;
    struct msg watch = {.type = MSG_WATCH, .watch = {.job = m->job, .on = 1}};

    assert_true(m->client > 0 && m->client <= c->jobs_n);
    j = c->jobs[m->client - 1];
    assert_false(j->submitted);
    j->submitted = true;
    j->id = m->job;
    j->err = m->err;
    j->class = m->class;
    j->why = m->why;
    if (!m->err)
        bus_post(c->bus, ep, bus_now(c->bus), &watch);
}

static void on_task_event(struct cluster *c, const struct msg_task_event *m)
{
    struct cluster_job *j = job_by_id(c, m->id.job);

    assert_non_null(j);
    assert_true(m->id.task < j->desc->tasks);
    assert_false(cluster_ended(j));
    j->task_state[m->id.task] = m->state;
    if (task_state_final(m->state))
        assert_int_equal(++j->finals[m->id.task], 1);
}

static void on_job_event(struct cluster *c, const struct msg_job_event *m)
{
    struct cluster_job *j = job_by_id(c, m->job);

    assert_non_null(j);
    assert_false(cluster_ended(j));
    j->state = m->state;
    if (!job_state_final(m->state))
        return;
    j->end_us = bus_now(c->bus);
    for (uint32_t i = 0; i < j->desc->tasks; i++)
        if (j->finals[i] != 1)
            fail_msg("job %u ended, and its task %u had %u final events", (unsigned)j->desc->shell, i,
                     j->finals[i]);
}

static void on_stopped(struct cluster *c, uint32_t ep)
{
    struct cluster_worker *w = worker_of(c, ep);

    bus_close(c->bus, ep);
    if (w) {
        assert_int_equal(w->runs_n, 0);
        w->alive = false;
    }
}

static void on_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m)
{
    struct cluster *c = arg;
    struct cluster_worker *w = worker_of(c, ep);

    if (c->trace) {
        char line[300];

        msg_format(m, line, sizeof line);
        fprintf(stderr, "%12lld %3u ! %s\n", (long long)now_us, ep, line);
    }
    switch (m->type) {
    case MSG_EXEC_START:
        exec_start(c, w, &m->exec_start);
        break;
    case MSG_EXEC_KILL:
        exec_kill(c, w, m->exec_kill.run);
        break;
    case MSG_JOURNAL_NODE:
    case MSG_JOURNAL_JOB:
    case MSG_JOURNAL_TASK:
    case MSG_JOURNAL_CANCEL:
    case MSG_JOURNAL_JOB_END:
        journal(c, ep, m, msg_journal_token(m));
        break;
    case MSG_SUBMITTED:
        on_submitted(c, ep, &m->submitted);
        break;
    case MSG_TASK_EVENT:
        on_task_event(c, &m->task_event);
        break;
    case MSG_JOB_EVENT:
        on_job_event(c, &m->job_event);
        break;
    case MSG_STOPPED:
        on_stopped(c, ep);
        break;
    default:
        break;
    }
}

/* ---- Roles ---- */

static void step_central(void *role, const struct event *e, struct out *out) { central_step(role, e, out); }
static int64_t next_central(const void *role) { return central_next_timeout(role); }
static void step_dist(void *role, const struct event *e, struct out *out) { dist_step(role, e, out); }
static int64_t next_dist(const void *role) { return dist_next_timeout(role); }
static void step_worker(void *role, const struct event *e, struct out *out) { worker_step(role, e, out); }
static int64_t next_worker(const void *role) { return worker_next_timeout(role); }

static struct policy policy_of(const struct cluster_config *c)
{
    struct policy p;

    assert_int_equal(policy_preset(c->policy, &p), 0);
    p.flags = (p.flags | c->flags_on) & ~c->flags_off;
    p.probe_ratio_milli = c->probe_ratio_milli ? c->probe_ratio_milli : p.probe_ratio_milli;
    p.steal_cap = c->steal_cap ? (uint16_t)c->steal_cap : p.steal_cap;
    p.steal_max = c->steal_max ? (uint16_t)c->steal_max : p.steal_max;
    return p;
}

static void start_central(struct cluster *c)
{
    const struct bus_role fns = {step_central, next_central};
    struct central_config cc;

    central_config_init(&cc);
    cc.cluster = 1;
    cc.epoch = ++c->central_epoch;
    cc.policy = policy_of(&c->config);
    cc.history.cutoff_fixed = !c->config.cutoff_computed;
    cc.history.min_jobs = 3;
    cc.history.share_fixed = true;
    cc.history.cutoff_us = c->config.cutoff_us;
    cc.history.share_ppm = c->config.share_ppm;
    if (c->config.lease_us)
        cc.long_lease_us = c->config.lease_us;
    c->central = central_new(&cc, rng_next(&c->rng));
    bus_start(c->bus, c->central_ep, &fns, c->central);
    replay_journal(c);
}

static void start_dist(struct cluster *c, struct cluster_dist *d, uint32_t number)
{
    const struct bus_role fns = {step_dist, next_dist};
    struct dist_config dc;
    char name[16];

    dist_config_init(&dc);
    snprintf(name, sizeof name, "d%u", number + 1);
    dc.name = blob_str(name);
    dc.addr = blob_str("d");
    dc.incarnation = rng_next(&c->rng);
    dc.first_seq = d->first_seq;
    dc.journal = true;
    dist_init(&d->d, &dc, rng_next(&c->rng));
    blob_drop(dc.name);
    blob_drop(dc.addr);
    d->alive = true;
    bus_start(c->bus, d->ep, &fns, &d->d);
}

static void start_worker(struct cluster *c, uint32_t i)
{
    const struct bus_role fns = {step_worker, next_worker};
    struct cluster_worker *w = c->workers[i];
    struct worker_config wc;
    char name[16];

    worker_config_init(&wc);
    snprintf(name, sizeof name, "w%u", i + 1);
    wc.name = blob_str(name);
    wc.addr = blob_str("w");
    wc.slots = w->slots;
    wc.incarnation = rng_next(&c->rng);
    wc.queue_per_slot = c->config.queue_per_slot;
    worker_init(&w->w, &wc, rng_next(&c->rng));
    blob_drop(wc.name);
    blob_drop(wc.addr);
    w->alive = true;
    bus_start(c->bus, w->ep, &fns, &w->w);
}

static void add_dist(struct cluster *c)
{
    struct cluster_dist *d = xcalloc(1, sizeof *d);

    d->ep = bus_add(c->bus, ROLE_DIST);
    d->first_seq = 1;
    vec_grow(c->dists, c->dists_n, c->dists_cap);
    c->dists[c->dists_n] = d;
    start_dist(c, d, c->dists_n++);
}

uint32_t cluster_add_worker(struct cluster *c, uint32_t slots)
{
    struct cluster_worker *w = xcalloc(1, sizeof *w);

    w->ep = bus_add(c->bus, ROLE_WORKER);
    w->slots = slots;
    vec_grow(c->workers, c->workers_n, c->workers_cap);
    w->parked_us = w->stuck_us = TIME_NEVER;
    c->workers[c->workers_n] = w;
    start_worker(c, c->workers_n);
    return c->workers_n++;
}

struct cluster *cluster_new(const struct cluster_config *config)
{
    struct cluster *c = xcalloc(1, sizeof *c);
    struct bus_config bc = {.arg = c,
                            .delay_us = config->delay_us ? delay_us : NULL,
                            .effect = on_effect,
                            .trace = on_delivery,
                            .stepped = on_stepped,
                            .steal_streams = config->steal_streams};

    c->config = *config;
    c->trace = getenv("HAWK_TEST_TRACE") != NULL;
    if (!c->config.policy)
        c->config.policy = "hawk";
    if (!c->config.slots)
        c->config.slots = 1;
    if (!c->config.cutoff_us)
        c->config.cutoff_us = 10 * US_PER_S;
    rng_seed(&c->rng, config->seed);
    c->bus = bus_new(&bc);
    c->central_ep = bus_add(c->bus, ROLE_CENTRAL);
    start_central(c);
    for (uint32_t i = 0; i < (config->dists ? config->dists : 1); i++)
        add_dist(c);
    for (uint32_t i = 0; i < config->workers; i++)
        cluster_add_worker(c, c->config.slots);
    return c;
}

static void job_free(struct cluster_job *j)
{
    job_desc_drop(j->desc);
    free(j->duration_us);
    free(j->code);
    free(j->starts);
    free(j->ends);
    free(j->finals);
    free(j->task_state);
    free(j);
}

void cluster_free(struct cluster *c)
{
    bus_free(c->bus);
    for (uint32_t i = 0; i < c->workers_n; i++) {
        worker_free(&c->workers[i]->w);
        free(c->workers[i]->runs);
        free(c->workers[i]);
    }
    for (uint32_t i = 0; i < c->dists_n; i++) {
        dist_free(&c->dists[i]->d);
        free(c->dists[i]);
    }
    central_free(c->central);
    for (uint32_t i = 0; i < c->jobs_n; i++)
        job_free(c->jobs[i]);
    for (uint32_t i = 0; i < c->journal_n; i++)
        msg_drop(&c->journal[i]);
    free(c->workers);
    free(c->dists);
    free(c->jobs);
    free(c->journal);
    free(c);
}

/* ---- Running ---- */

/* One step, or one exit; false: nothing happens until limit_us. */
static bool run_one(struct cluster *c, int64_t limit_us)
{
    uint32_t run = 0;
    struct cluster_worker *w = first_due(c, &run);
    int64_t due_us = w ? w->runs[run].due_us : TIME_NEVER;
    const struct cluster_job *j;

    if (bus_run_one(c->bus, due_us < limit_us ? due_us : limit_us))
        return true;
    if (!w || due_us > limit_us)
        return false;
    bus_run_until(c->bus, due_us); /* nothing: it only passes the time */
    j = c->jobs[w->runs[run].job];
    j->ends[w->runs[run].id.task]++;
    exec_exited(c, w, run, OUTCOME_EXITED, j->code[w->runs[run].id.task]);
    return true;
}

void cluster_run(struct cluster *c, int64_t for_us)
{
    int64_t limit_us = bus_now(c->bus) + for_us;

    while (run_one(c, limit_us))
        ;
    bus_run_until(c->bus, limit_us);
}

void cluster_run_until(struct cluster *c, bool (*done)(struct cluster *, void *), void *arg, int64_t limit_us,
                       const char *what)
{
    int64_t end_us = bus_now(c->bus) + limit_us;
    uint64_t steps = 0;

    while (!done(c, arg)) {
        if (!run_one(c, end_us))
            fail_msg("after %lld ms: not yet %s", (long long)(limit_us / 1000), what);
        if (++steps > 20000000)
            fail_msg("20,000,000 steps at %lld us: not yet %s", (long long)bus_now(c->bus), what);
    }
}

static bool is_up(struct cluster *c, void *arg)
{
    for (uint32_t i = 0; i < c->workers_n; i++) {
        struct worker_counts counts;
        struct central_node n;

        if (!c->workers[i]->alive)
            continue;
        worker_counts(&c->workers[i]->w, &counts);
        if (!counts.joined || !central_view_node(c->central, worker_node(&c->workers[i]->w), 0, &n) ||
            !n.partition_acked)
            return false;
        for (uint32_t j = 0; j < c->dists_n; j++)
            if (c->dists[j]->alive && !dist_has_stream(&c->dists[j]->d, worker_node(&c->workers[i]->w)))
                return false;
    }
    for (uint32_t j = 0; j < c->dists_n; j++)
        if (c->dists[j]->alive && !dist_central_up(&c->dists[j]->d))
            return false;
    return true;
}

void cluster_come_up(struct cluster *c) { cluster_run_until(c, is_up, NULL, 5 * US_PER_S, "up"); }

static bool jobs_ended(struct cluster *c, void *arg)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (!cluster_ended(c->jobs[i]) && !c->jobs[i]->abandoned)
            return false;
    return true;
}

void cluster_run_jobs(struct cluster *c, int64_t limit_us)
{
    cluster_run_until(c, jobs_ended, NULL, limit_us, "every job ended");
}

static bool all_quiet(struct cluster *c, void *arg)
{
    for (uint32_t i = 0; i < c->workers_n; i++)
        if (c->workers[i]->alive && !worker_quiet(&c->workers[i]->w))
            return false;
    for (uint32_t i = 0; i < c->dists_n; i++)
        if (c->dists[i]->alive && !dist_quiet(&c->dists[i]->d))
            return false;
    return central_quiet(c->central);
}

void cluster_expect_all_quiet(struct cluster *c)
{
    cluster_run_until(c, all_quiet, NULL, 3600 * US_PER_S, "quiet");
    for (uint32_t i = 0; i < c->jobs_n; i++) {
        const struct cluster_job *j = c->jobs[i];

        for (uint32_t t = 0; t < j->desc->tasks && !j->err && !j->abandoned; t++) {
            assert_int_equal(j->finals[t], 1);
            if (j->task_state[t] == TASK_DONE || j->task_state[t] == TASK_FAILED)
                assert_true(j->ends[t] >= 1);
        }
    }
}

/* ---- Jobs ---- */

struct cluster_job *cluster_job(struct cluster *c, uint32_t tasks, int64_t duration_us, enum class_tag tag)
{
    struct cluster_job *j = xcalloc(1, sizeof *j);

    vec_grow(c->jobs, c->jobs_n, c->jobs_cap);
    c->jobs[c->jobs_n++] = j;
    j->desc = job_desc_new();
    j->desc->shell = c->jobs_n;
    j->desc->tasks = tasks;
    j->desc->tag = (uint8_t)tag;
    j->desc->retries = 3;
    j->desc->kind = PAYLOAD_TIMER;
    strings_add(&j->desc->argv, "1s"); /* what the executor here takes is duration_us */
    j->duration_us = xcalloc(tasks, sizeof *j->duration_us);
    j->code = xcalloc(tasks, sizeof *j->code);
    j->starts = xcalloc(tasks, sizeof *j->starts);
    j->ends = xcalloc(tasks, sizeof *j->ends);
    j->finals = xcalloc(tasks, sizeof *j->finals);
    j->task_state = xcalloc(tasks, sizeof *j->task_state);
    for (uint32_t i = 0; i < tasks; i++)
        j->duration_us[i] = duration_us;
    return j;
}

void cluster_name_job(struct cluster_job *j, const char *name)
{
    blob_drop(j->desc->name);
    j->desc->name = blob_str(name);
}

void cluster_submit(struct cluster *c, struct cluster_job *j, uint32_t dist)
{
    struct msg m = {.type = MSG_SUBMIT,
                    .submit = {.desc = job_desc_ref(j->desc), .client = (uint32_t)j->desc->shell}};

    j->dist = dist;
    j->submit_us = bus_now(c->bus);
    bus_post(c->bus, c->dists[dist]->ep, bus_now(c->bus), &m);
}

void cluster_cancel(struct cluster *c, struct cluster_job *j)
{
    struct msg m = {.type = MSG_CANCEL, .cancel = {.job = j->id, .client = (uint32_t)j->desc->shell}};

    j->cancelled = true;
    bus_post(c->bus, c->dists[j->dist]->ep, bus_now(c->bus), &m);
}

void cluster_view(struct cluster *c, const struct cluster_job *j, struct job_view *v)
{
    const struct dist *d = &c->dists[j->dist]->d;
    const struct dist_job *found = dist_find(d, j->id);

    assert_non_null(found);
    dist_job_view(d, found, bus_now(c->bus), v);
}

bool cluster_ended(const struct cluster_job *j)
{
    return j->submitted && (j->err || job_state_final(j->state));
}

uint64_t cluster_counter(const struct cluster *c, enum counter counter)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->workers_n; i++)
        sum += worker_counter(&c->workers[i]->w, counter);
    for (uint32_t i = 0; i < c->dists_n; i++)
        sum += dist_counters(&c->dists[i]->d)[counter];
    return sum;
}

uint32_t cluster_running(const struct cluster *c, uint32_t worker) { return c->workers[worker]->runs_n; }

/* ---- Faults and changes ---- */

void cluster_kill_worker(struct cluster *c, uint32_t worker)
{
    struct cluster_worker *w = c->workers[worker];

    bus_kill(c->bus, w->ep);
    w->runs_n = 0;
    w->alive = false;
}

void cluster_restart_worker(struct cluster *c, uint32_t worker)
{
    if (c->workers[worker]->alive)
        cluster_kill_worker(c, worker);
    worker_free(&c->workers[worker]->w);
    start_worker(c, worker);
}

void cluster_stop_worker(struct cluster *c, uint32_t worker, bool now)
{
    struct msg m = {.type = MSG_STOP, .stop = {.now = now}};

    bus_post(c->bus, c->workers[worker]->ep, bus_now(c->bus), &m);
}

void cluster_restart_dist(struct cluster *c, uint32_t dist)
{
    struct cluster_dist *d = c->dists[dist];

    bus_kill(c->bus, d->ep);
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (c->jobs[i]->dist == dist && !cluster_ended(c->jobs[i]))
            c->jobs[i]->abandoned = true;
    d->first_seq = d->d.next_seq;
    dist_free(&d->d);
    start_dist(c, d, dist);
}

void cluster_kill_central(struct cluster *c) { bus_kill(c->bus, c->central_ep); }

void cluster_restart_central(struct cluster *c)
{
    if (bus_runs(c->bus, c->central_ep))
        cluster_kill_central(c);
    central_free(c->central);
    start_central(c);
}

void cluster_set_share(struct cluster *c, uint32_t share_ppm)
{
    struct msg m = {.type = MSG_SET_POLICY};

    m.set_policy.policy = *central_policy(c->central);
    m.set_policy.policy.short_share_ppm = share_ppm;
    bus_post(c->bus, c->central_ep, bus_now(c->bus), &m);
}
