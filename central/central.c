/* Central's step: which event goes where, what is due, and in which order a step ends. */
#include "central/central.h"

#include "base/check.h"
#include "base/mem.h"
#include "central/state.h"

#include <stdlib.h>

struct central *central_new(const struct central_config *cfg, uint64_t seed)
{
    struct central *c = xcalloc(1, sizeof *c);

    (void)seed;
    c->cfg = *cfg;
    c->settle_us = c->long_work_off_us = c->retry_us = c->recall_us = TIME_NEVER;
    c->ids_at_us = c->young_us = TIME_NEVER;
    c->general_first = UINT32_MAX;
    list_init(&c->joins_waiting);
    for (int s = 0; s < NODE_STATE_COUNT; s++)
        list_init(&c->by_state[s]);
    for (int s = 0; s < LONG_STATE_COUNT; s++)
        list_init(&c->jobs[s]);
    list_init(&c->dists);
    list_init(&c->changed);
    list_init(&c->untold);
    list_init(&c->push);
    list_init(&c->parked);
    list_init(&c->stuck);
    list_init(&c->unplaced);
    list_init(&c->apps_waiting);
    list_init(&c->results_untold);
    list_init(&c->results_told);
    list_init(&c->limbo);
    list_init(&c->touched);
    list_init(&c->orphans);
    list_init(&c->out_of_service);
    waiting_init(&c->waiting);
    central_policy_init(c);
    return c;
}

void central_free(struct central *c)
{
    if (!c)
        return;
    central_jobs_free(c);
    central_journal_free(c);
    central_nodes_free(c);
    central_apps_free(c);
    members_drop(c->dist_list);
    members_drop(c->worker_list);
    waiting_free(&c->waiting);
    history_free(&c->history);
    policy_choice_drop(c->choice);
    free(c);
}

/* ---- Events ---- */

static void job_report(struct central *c, const struct msg_job_report *m)
{
    const struct msg_history h = {
        .name = m->name, .mean_us = m->mean_us, .task_us = m->task_us, .tasks = m->tasks, .class = m->class};

    central_policy_job_finished(c, &h, false);
}

static void from_dist(struct central *c, struct node *n, const struct msg *m)
{
    switch (m->type) {
    case MSG_JOB_REPORT:
        job_report(c, &m->job_report);
        break;
    case MSG_LONG_SUBMIT:
        central_jobs_submit(c, n, &m->long_submit);
        break;
    case MSG_LONG_CANCEL:
        central_jobs_cancel(c, &m->long_cancel);
        break;
    case MSG_LONG_WATCH:
        central_jobs_watch(c, n, &m->long_watch);
        break;
    case MSG_JOB_NUMBERS:
        central_nodes_numbers(c, n, m->job_numbers.next);
        break;
    default:
        break; /* not for us: ignored */
    }
}

static void from_worker(struct central *c, struct node *n, const struct msg *m)
{
    switch (m->type) {
    case MSG_PARTITION_ACK:
        central_partition_ack(c, n, m->partition_ack.epoch);
        break;
    case MSG_TASK_RETURNED:
        central_tasks_returned(c, n, &m->task_returned);
        break;
    case MSG_TASK_STARTED:
        central_tasks_started(c, n, &m->task_started);
        break;
    case MSG_TASK_FINISHED:
        central_tasks_finished(c, n, &m->task_finished);
        break;
    case MSG_TASK_HELD:
        central_tasks_held(c, n, &m->task_held);
        break;
    case MSG_HELD_END:
        central_tasks_held_end(c, n);
        break;
    case MSG_APP:
        central_apps_heard(c, n, &m->app);
        break;
    case MSG_OUT_OF_SERVICE:
        central_service_heard(c, n, &m->out_of_service);
        break;
    case MSG_DRAINING:
        central_nodes_stopping(c, n);
        break;
    case MSG_PARKED:
        central_pairing_parked(c, n, m->parked.parked);
        break;
    case MSG_STUCK:
        central_pairing_stuck(c, n, &m->stuck);
        break;
    default:
        break; /* not for us: ignored */
    }
}

static void from_node(struct central *c, const struct msg *m)
{
    struct node *n = central_nodes_heard(c, m->peer);

    if (!n)
        return; /* it has not joined */
    switch (m->type) {
    case MSG_HEARTBEAT:
        central_nodes_heartbeat(c, n, &m->heartbeat);
        break;
    case MSG_COUNTER:
        central_nodes_counter(n, &m->counter);
        break;
    case MSG_DRAINED:
        central_drain_answered(c, n, &m->drained);
        break;
    case MSG_LEAVE:
        central_nodes_leave(c, n);
        break;
    default:
        if (n->role == ROLE_DIST)
            from_dist(c, n, m);
        else
            from_worker(c, n, m);
    }
}

static void recovered(struct central *c)
{
    c->recovered = true;
    c->tasks_recovered = c->tasks_held;
    if (c->n_nodes > 0)
        c->settle_us = c->now_us + c->cfg.suspect_us;
    central_policy_recovered(c);
    central_nodes_recovered(c);
    central_jobs_recovered(c);
    central_nodes_join_waiting(c);
}

/* What the journal holds. */
static void recover(struct central *c, const struct msg *m)
{
    switch (m->type) {
    case MSG_JOURNAL_NODE:
        central_nodes_recover(c, &m->journal_node);
        break;
    case MSG_JOURNAL_CLUSTER:
        central_nodes_recover_cluster(c, &m->journal_cluster);
        break;
    case MSG_JOURNAL_JOB:
        central_jobs_recover(c, &m->journal_job);
        break;
    case MSG_JOURNAL_TASK:
        central_jobs_recover_task(c, &m->journal_task);
        break;
    case MSG_JOURNAL_CANCEL:
        central_jobs_recover_cancel(c, &m->journal_cancel);
        break;
    case MSG_JOURNAL_OWNER:
        central_jobs_recover_owner(c, &m->journal_owner);
        break;
    case MSG_JOURNAL_JOB_END:
        central_jobs_recover_end(c, &m->journal_job_end);
        break;
    case MSG_HISTORY:
        central_policy_job_finished(c, &m->history, true);
        break;
    case MSG_JOURNAL_POLICY:
        central_policy_recover(c, &m->journal_policy);
        break;
    default:
        recovered(c);
    }
}

static void dispatch(struct central *c, const struct msg *m)
{
    switch (m->type) {
    case MSG_START:
    case MSG_TIMER:
        break;
    case MSG_STOP:
        c->stopping = true;
        break;
    case MSG_PEER_UP:
        central_nodes_peer_up(c, m->peer, m->peer_up.role);
        break;
    case MSG_PEER_LOST:
        central_nodes_peer_lost(c, m->peer);
        break;
    case MSG_JOIN:
        central_nodes_join(c, m->peer, m);
        break;
    case MSG_SET_POLICY:
        central_policy_set(c, &m->set_policy);
        break;
    case MSG_CANCEL:
        central_jobs_cancel_asked(c, &m->cancel);
        break;
    case MSG_SET_DRAIN:
        central_drain_set(c, &m->set_drain);
        break;
    case MSG_STOP_NODE:
        central_stop_node(c, &m->stop_node);
        break;
    case MSG_JOURNAL_DONE:
        central_journal_done(c, &m->journal_done);
        break;
    case MSG_JOURNAL_CLUSTER:
    case MSG_JOURNAL_NODE:
    case MSG_JOURNAL_JOB:
    case MSG_JOURNAL_TASK:
    case MSG_JOURNAL_CANCEL:
    case MSG_JOURNAL_OWNER:
    case MSG_JOURNAL_JOB_END:
    case MSG_JOURNAL_POLICY:
    case MSG_HISTORY:
    case MSG_RECOVERED:
        if (!c->recovered)
            recover(c, m);
        break;
    default:
        if (msg_is_wire(m))
            from_node(c, m);
    }
}

/* ---- Steps ---- */

static void run_timers(struct central *c)
{
    central_nodes_run(c);
    central_tasks_run(c);
    central_journal_run(c);
    central_jobs_run(c);
    central_orphans_run(c);
}

/* What a step caused, once, whatever and how much it was. */
static void finish(struct central *c)
{
    if (c->service_look)
        central_service_look(c);
    c->service_look = false;
    central_partition_flush(c);
    if (!list_empty(&c->touched))
        central_jobs_settle(c);
    central_tasks_end_unwanted(c);
    central_tasks_place(c);
    central_recall_run(c);
    central_members_flush(c);
    central_members_run(c);
    central_pairing_run(c);
    if (c->stopping && c->recovered && c->pending.n == 0) {
        c->stopped = true;
        out_add(c->out, MSG_STOPPED, 0)->stopped.asked = true;
    }
}

void central_step(struct central *c, const struct event *e, struct out *out)
{
    if (c->stopped)
        return;
    CHECK(e->now_us >= c->now_us);
    c->now_us = e->now_us;
    c->out = out;
    dispatch(c, &e->m);
    run_timers(c);
    finish(c);
    c->out = NULL;
}

int64_t central_next_timeout(const struct central *c)
{
    int64_t at_us = c->retry_us;

    if (c->stopped)
        return TIME_NEVER;
    at_us = earlier(at_us, central_nodes_due_us(c));
    at_us = earlier(at_us, central_tasks_due_us(c));
    at_us = earlier(at_us, central_jobs_due_us(c));
    at_us = earlier(at_us, central_orphans_due_us(c));
    at_us = earlier(at_us, central_partition_due_us(c));
    at_us = earlier(at_us, central_members_due_us(c));
    at_us = earlier(at_us, central_pairing_due_us(c));
    return earlier(at_us, central_recall_due_us(c));
}
