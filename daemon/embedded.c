/* A whole cluster in this process: see embedded.h. */
#include "daemon/embedded.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "bus/bus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of the executor, and whose it is. */
struct run {
    uint32_t worker; /* index; next free one while unused */
    uint32_t run;    /* the worker's own number */
    bool used;
};

struct embedded {
    struct loop *loop;
    struct embedded_config config;
    struct bus *bus;
    uint32_t central_ep, dist_ep, first_worker_ep;
    struct central *central;
    struct dist dist;
    struct worker *workers;
    uint32_t workers_n;
    struct runner *runner;
    struct run *runs; /* the executor's run number is the index + 1 */
    uint32_t runs_n, runs_cap, runs_free, runs_used;
    struct msg *held; /* EXEC_START, not passed on yet; oldest first */
    uint32_t held_n, held_cap;
    bool holding;
    bool turning;
    struct loop_timer timer;
    struct loop_hook after;
};

#define NO_RUN UINT32_MAX

/* ---- Runs: every worker numbers its own, the executor wants one numbering ---- */

static uint32_t run_new(struct embedded *e, uint32_t worker, uint32_t run)
{
    uint32_t i = e->runs_free;
    if (i != NO_RUN) {
        e->runs_free = e->runs[i].worker;
    } else {
        vec_grow(e->runs, e->runs_n, e->runs_cap);
        i = e->runs_n++;
    }
    e->runs[i] = (struct run){.worker = worker, .run = run, .used = true};
    e->runs_used++;
    return i + 1;
}

/* The executor's number of a worker's run, or 0. A worker has few at a time, and kills are rare. */
static uint32_t run_find(const struct embedded *e, uint32_t worker, uint32_t run)
{
    for (uint32_t i = 0; i < e->runs_n; i++)
        if (e->runs[i].used && e->runs[i].worker == worker && e->runs[i].run == run)
            return i + 1;
    return 0;
}

static void post_message(struct embedded *e, uint32_t ep, const struct msg *m)
{
    int64_t now = loop_now(e->loop), at = bus_now(e->bus);
    msg_ref(m);
    bus_post(e->bus, ep, now > at ? now : at, m);
    if (!e->turning)
        loop_timer_set(e->loop, &e->timer, now);
}

/* Attached executors serve all workers alike. */
static void on_app(struct embedded *e, const struct msg *m)
{
    for (uint32_t i = 0; i < e->workers_n; i++)
        post_message(e, e->first_worker_ep + i, m);
}

void embedded_on_exec(void *arg, const struct msg *m)
{
    struct embedded *e = arg;
    struct msg to = *m;
    if (m->type == MSG_EXEC_APP) {
        on_app(e, m);
        return;
    }
    uint32_t run = m->type == MSG_EXEC_STARTED  ? m->exec_started.run
                   : m->type == MSG_EXEC_PAUSED ? m->exec_paused.run
                                                : m->exec_exited.run;
    struct run *r = &e->runs[run - 1];
    CHECK(run >= 1 && run <= e->runs_n && r->used);
    uint32_t worker = r->worker;
    if (m->type == MSG_EXEC_STARTED) {
        to.exec_started.run = r->run;
    } else if (m->type == MSG_EXEC_PAUSED) {
        to.exec_paused.run = r->run;
    } else {
        to.exec_exited.run = r->run;
        *r = (struct run){.worker = e->runs_free};
        e->runs_free = run - 1;
        e->runs_used--;
        e->config.effect(e->config.arg, m);
    }
    post_message(e, e->first_worker_ep + worker, &to);
}

#define WORKER_NAME 32

static const char *worker_name(const struct embedded *e, uint32_t worker, char buf[WORKER_NAME])
{
    if (e->config.worker)
        return e->config.worker;
    snprintf(buf, WORKER_NAME, "w%u", worker + 1);
    return buf;
}

/* ---- Commands that are not to start yet ---- */

static void start(struct embedded *e, const struct msg *m)
{
    runner_effect(e->runner, m,
                  worker_name(e, e->runs[m->exec_start.run - 1].worker, (char[WORKER_NAME]){0}));
}

static void hold(struct embedded *e, const struct msg *m)
{
    vec_grow(e->held, e->held_n, e->held_cap);
    msg_ref(m);
    e->held[e->held_n++] = *m;
}

/* Takes the i-th out; its references are the caller's. */
static struct msg unhold(struct embedded *e, uint32_t i)
{
    struct msg m = e->held[i];
    memmove(&e->held[i], &e->held[i + 1], (--e->held_n - i) * sizeof m);
    return m;
}

/* False: it has been started. */
static bool kill_held(struct embedded *e, const struct msg_exec_kill *k)
{
    for (uint32_t i = 0; i < e->held_n; i++)
        if (e->held[i].exec_start.run == k->run) {
            struct msg m = unhold(e, i);
            msg_drop(&m);
            embedded_on_exec(e, &(struct msg){.type = MSG_EXEC_EXITED,
                                              .exec_exited = {.run = k->run, .outcome = k->outcome}});
            return true;
        }
    return false;
}

void embedded_hold(struct embedded *e) { e->holding = true; }

void embedded_go(struct embedded *e, uint32_t n)
{
    while (n-- > 0 && e->held_n > 0) {
        struct msg m = unhold(e, 0);
        start(e, &m);
        msg_drop(&m);
    }
}

uint32_t embedded_held(const struct embedded *e) { return e->held_n; }
uint32_t embedded_running(const struct embedded *e) { return e->runs_used - e->held_n; }

static void worker_effect(struct embedded *e, uint32_t worker, const struct msg *m)
{
    struct msg to = *m;
    if (m->type == MSG_EXEC_START) {
        to.exec_start.run = run_new(e, worker, m->exec_start.run);
        if (e->holding)
            hold(e, &to);
        else
            start(e, &to);
    } else if (m->type == MSG_EXEC_KILL) {
        to.exec_kill.run = run_find(e, worker, m->exec_kill.run);
        if (to.exec_kill.run && !kill_held(e, &to.exec_kill))
            runner_effect(e->runner, &to, NULL);
    } else if (m->type == MSG_EXEC_PAUSE) {
        to.exec_pause.run = run_find(e, worker, m->exec_pause.run);
        if (to.exec_pause.run)
            runner_effect(e->runner, &to, NULL);
    } else if (m->type == MSG_EXEC_RESUME) {
        to.exec_resume.run = run_find(e, worker, m->exec_resume.run);
        if (to.exec_resume.run)
            runner_effect(e->runner, &to, NULL);
    }
}

/* There is no journal: a record lasts as long as this process, so it counts as written at once. */
static void on_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m)
{
    struct embedded *e = arg;
    uint64_t token = msg_journal_token(m);
    if (token)
        post_message(e, ep, &(struct msg){.type = MSG_JOURNAL_DONE, .journal_done.token = token});
    else if (ep >= e->first_worker_ep)
        worker_effect(e, ep - e->first_worker_ep, m);
    else
        e->config.effect(e->config.arg, m);
}

static int64_t read_clock(void *arg) { return loop_now(((struct embedded *)arg)->loop); }

static void on_trace(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m)
{
    char line[512];
    msg_format(m, line, sizeof line);
    log_at(LOG_TRACE, "%u -> %u %s", from, to, line);
}

static void run_bus(void *arg)
{
    struct embedded *e = arg;
    e->turning = true;
    bus_run_until(e->bus, loop_now(e->loop));
    e->turning = false;
    loop_timer_set(e->loop, &e->timer, bus_next_time(e->bus));
}

/* The turn's hook does the work; the timer only ends the wait. */
static void on_timer(void *arg) {}

/* ---- Making it ---- */

static void add_central(struct embedded *e)
{
    struct bus_role r = {.fns = &central_functions};
    e->central = central_new(e->config.central);
    e->central_ep = bus_add(e->bus, ROLE_CENTRAL);
    bus_start(e->bus, e->central_ep, &r, e->central);
    post_message(e, e->central_ep, &(struct msg){.type = MSG_RECOVERED});
}

static void add_dist(struct embedded *e)
{
    struct bus_role r = {.fns = &dist_functions};
    struct dist_config c;
    dist_config_init(&c);
    c.name = blob_str("dist");
    c.addr = blob_str(e->config.addr);
    c.incarnation = e->config.seed;
    c.client_grace_us = e->config.client_grace_us;
    if (e->config.pauses)
        c.nested_grace_us = e->config.pause.longest_us + e->config.client_grace_us;
    c.first_seq = e->config.first_seq ? e->config.first_seq : 1;
    dist_init(&e->dist, &c, e->config.seed + 1);
    blob_drop(c.name);
    blob_drop(c.addr);
    e->dist_ep = bus_add(e->bus, ROLE_DIST);
    bus_start(e->bus, e->dist_ep, &r, &e->dist);
}

static struct worker_pausing pausing_of(const struct embedded_config *c, uint32_t slots)
{
    struct worker_pausing p = c->pause;
    uint32_t max = worker_paused_max(slots);
    if (!p.paused_max || p.paused_max > max)
        p.paused_max = max;
    return p;
}

static void add_workers(struct embedded *e, const struct exec *x)
{
    struct bus_role r = {.fns = &worker_functions};
    uint32_t slots = e->config.slots, n = e->config.workers < slots ? e->config.workers : slots;
    e->workers = xcalloc(n, sizeof *e->workers);
    e->workers_n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct worker_config c;
        worker_config_init(&c);
        c.name = blob_str(worker_name(e, i, (char[WORKER_NAME]){0}));
        c.addr = blob_str(e->config.addr);
        c.serves = e->config.serves ? blob_str(e->config.serves) : NULL;
        c.slots = slots / n + (i < slots % n);
        c.incarnation = e->config.seed;
        c.freezer = (uint8_t)(1 + exec_freezer_in_force(x));
        if (e->config.pauses && exec_freezer_in_force(x) != EXEC_FREEZER_OFF)
            c.pause = pausing_of(&e->config, c.slots);
        c.leaves_service = false; /* all workers share this machine: what one lacks, all lack */
        worker_init(&e->workers[i], &c, e->config.seed + 2 + i);
        blob_drop(c.name);
        blob_drop(c.addr);
        blob_drop(c.serves);
        uint32_t ep = bus_add(e->bus, ROLE_WORKER);
        if (i == 0)
            e->first_worker_ep = ep;
        bus_start(e->bus, ep, &r, &e->workers[i]);
    }
}

struct embedded *embedded_new(struct loop *l, struct exec *x, const struct exec_config *ec,
                              const struct embedded_config *c)
{
    struct embedded *e = xcalloc(1, sizeof *e);
    *e = (struct embedded){.loop = l, .config = *c, .runs_free = NO_RUN, .first_worker_ep = UINT32_MAX};
    struct bus_config bc = {.arg = e, .clock_us = read_clock, .effect = on_effect};
    if (log_level >= LOG_TRACE)
        bc.trace = on_trace;
    e->bus = bus_new(&bc);
    loop_timer_init(&e->timer, on_timer, e);
    e->runner = runner_new(l, x, NULL, ec, embedded_on_exec, e);
    add_central(e);
    add_dist(e);
    add_workers(e, x);
    loop_hook_add(l, &e->after, LOOP_AFTER, run_bus, e);
    return e;
}

void embedded_feed(struct embedded *e, enum role to, const struct msg *m)
{
    post_message(e, to == ROLE_CENTRAL ? e->central_ep : e->dist_ep, m);
    if (!e->turning)
        run_bus(e);
}

bool embedded_is_up(const struct embedded *e)
{
    node_id_t id = NODE_NONE;
    const struct member *m;
    uint32_t connected = 0;
    while ((m = dist_next_member(&e->dist, id))) {
        id = m->node;
        connected += m->role == ROLE_WORKER && dist_has_stream(&e->dist, id);
    }
    return connected == e->workers_n;
}

const struct dist *embedded_dist(const struct embedded *e) { return &e->dist; }
uint64_t embedded_next_seq(const struct embedded *e) { return e->dist.next_seq; }
const struct central *embedded_central(const struct embedded *e) { return e->central; }
const struct worker *embedded_worker(const struct embedded *e) { return &e->workers[0]; }
uint32_t embedded_workers(const struct embedded *e) { return e->workers_n; }
const struct runner *embedded_runner(const struct embedded *e) { return e->runner; }
void embedded_set_apps(struct embedded *e, struct apps *a) { runner_set_apps(e->runner, a); }

bool embedded_task_user(void *arg, job_id_t job, uint32_t task, char *user)
{
    const struct embedded *e = arg;
    return runner_task_user(e->runner, job, task, user);
}

uint64_t embedded_reside(void *arg, job_id_t job, uint32_t task)
{
    const struct embedded *e = arg;
    return runner_reside(e->runner, job, task);
}

void embedded_evict(void *arg, uint64_t resident)
{
    const struct embedded *e = arg;
    runner_evict(e->runner, resident);
}

bool embedded_broken(const struct embedded *e) { return runner_broken(e->runner); }

void embedded_kill(struct embedded *e)
{
    for (uint32_t i = 0; i < e->runs_n; i++) {
        const struct msg m = {.type = MSG_EXEC_KILL,
                              .exec_kill = {.run = i + 1, .force = true, .outcome = OUTCOME_CANCELLED}};
        if (e->runs[i].used && !kill_held(e, &m.exec_kill))
            runner_effect(e->runner, &m, NULL);
    }
}

void embedded_free(struct embedded *e)
{
    if (!e)
        return;
    runner_free(e->runner, false);
    loop_hook_remove(&e->after);
    loop_timer_clear(e->loop, &e->timer);
    bus_free(e->bus);
    for (uint32_t i = 0; i < e->workers_n; i++)
        worker_free(&e->workers[i]);
    dist_free(&e->dist);
    central_free(e->central);
    free(e->workers);
    while (e->held_n > 0)
        msg_drop(&e->held[--e->held_n]);
    free(e->held);
    free(e->runs);
    free(e);
}
