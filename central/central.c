/* Central's step: passes each event to its handler, then does what is due and what the step caused, in a
 * fixed order. */
#include "central/central.h"
#include "central/journal.h"

#include "base/check.h"
#include "base/mem.h"
#include "central/admission.h"
#include "central/hold.h"
#include "central/pairing.h"
#include "central/tasks.h"

#include <stdlib.h>

struct central *central_new(const struct central_config *cfg)
{
    struct central *c = xcalloc(1, sizeof *c);

    c->cfg = *cfg;
    c->settle_us = c->long_work_off_us = c->retry_us = c->recall_us = c->demand_us = TIME_NEVER;
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
    kept_init(&c->kept);
    list_init(&c->apps_waiting);
    list_init(&c->owned);
    list_init(&c->owned_takers);
    end_times_init(&c->end_times);
    list_init(&c->results_untold);
    list_init(&c->results_told);
    list_init(&c->limbo);
    heap_init(&c->delayed);
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
    central_admissions_free(c);
    members_drop(c->dist_list);
    members_drop(c->worker_list);
    waiting_free(&c->waiting);
    heap_free(&c->delayed);
    kept_free(&c->kept);
    history_free(&c->history);
    policy_choice_drop(c->choice);
    free(c);
}

/* ---- Events ---- */

static void central_on_stop(struct central *c, const struct msg *in) { c->stopping = true; }

static void central_on_job_report(struct central *c, const struct msg *in)
{
    const struct msg_job_report *m = &in->job_report;
    const struct msg_history h = {.name = m->name,
                                  .mean_us = m->mean_us,
                                  .task_us = m->task_us,
                                  .tasks = m->tasks,
                                  .class = m->class,
                                  .user = m->user};

    central_policy_job_finished(c, &h, false);
}

static void central_on_history(struct central *c, const struct msg *in)
{
    central_policy_job_finished(c, &in->history, true);
}

static void central_on_recovered(struct central *c, const struct msg *in)
{
    c->recovered = true;
    c->recovered_us = c->now_us;
    c->tasks_recovered = c->tasks_held;
    c->knew_nodes = c->n_nodes > 0;
    if (c->knew_nodes)
        c->settle_us = c->now_us + c->cfg.suspect_us;
    central_policy_recovered(c);
    central_nodes_recovered(c);
    central_jobs_recovered(c);
    central_nodes_join_waiting(c);
}

/* Allowed senders. HERE: this process, and nodes that join. JOURNAL: the journal, until it is read. NODE,
 * DIST, WORKER: a node that has joined. */
enum sender { HERE, JOURNAL, NODE, DIST, WORKER };

static const struct {
    void (*handle)(struct central *c, const struct msg *in);
    enum sender from;
} handlers[MSG_TYPE_COUNT] = {
    [MSG_PEER_UP] = {central_on_peer_up, HERE},
    [MSG_PEER_LOST] = {central_on_peer_lost, HERE},
    [MSG_JOIN] = {central_on_join, HERE},
    [MSG_SET_POLICY] = {central_on_set_policy, HERE},
    [MSG_CANCEL] = {central_on_cancel, HERE},
    [MSG_HOLD] = {central_on_hold, HERE},
    [MSG_SET_DRAIN] = {central_on_set_drain, HERE},
    [MSG_ADMIT] = {central_on_admit, HERE},
    [MSG_STOP_NODE] = {central_on_stop_node, HERE},
    [MSG_JOURNAL_DONE] = {central_on_journal_done, HERE},
    [MSG_STOP] = {central_on_stop, HERE},
    [MSG_JOURNAL_NODE] = {central_on_journal_node, JOURNAL},
    [MSG_JOURNAL_CLUSTER] = {central_on_journal_cluster, JOURNAL},
    [MSG_JOURNAL_JOB] = {central_on_journal_job, JOURNAL},
    [MSG_JOURNAL_AGE] = {central_on_journal_age, JOURNAL},
    [MSG_JOURNAL_TASK] = {central_on_journal_task, JOURNAL},
    [MSG_JOURNAL_CANCEL] = {central_on_journal_cancel, JOURNAL},
    [MSG_JOURNAL_OWNER] = {central_on_journal_owner, JOURNAL},
    [MSG_JOURNAL_RELEASED] = {central_on_journal_released, JOURNAL},
    [MSG_JOURNAL_WAITS] = {central_on_journal_waits, JOURNAL},
    [MSG_JOURNAL_JOB_END] = {central_on_journal_job_end, JOURNAL},
    [MSG_JOURNAL_POLICY] = {central_on_journal_policy, JOURNAL},
    [MSG_JOURNAL_ADMITTED] = {central_on_journal_admitted, JOURNAL},
    [MSG_HISTORY] = {central_on_history, JOURNAL},
    [MSG_RECOVERED] = {central_on_recovered, JOURNAL},
    [MSG_HEARTBEAT] = {central_on_heartbeat, NODE},
    [MSG_COUNTER] = {central_on_counter, NODE},
    [MSG_DRAINED] = {central_on_drained, NODE},
    [MSG_LEAVE] = {central_on_leave, NODE},
    [MSG_LONG_SUBMIT] = {central_on_long_submit, DIST},
    [MSG_LONG_CANCEL] = {central_on_long_cancel, DIST},
    [MSG_LONG_CANCEL_TASKS] = {central_on_long_cancel_tasks, DIST},
    [MSG_LONG_WATCH] = {central_on_long_watch, DIST},
    [MSG_LONG_HOLD] = {central_on_long_hold, DIST},
    [MSG_JOB_NUMBERS] = {central_on_job_numbers, DIST},
    [MSG_JOB_REPORT] = {central_on_job_report, DIST},
    [MSG_PARTITION_ACK] = {central_on_partition_ack, WORKER},
    [MSG_TASK_RETURNED] = {central_on_task_returned, WORKER},
    [MSG_TASK_STARTED] = {central_on_task_started, WORKER},
    [MSG_TASK_FINISHED] = {central_on_task_finished, WORKER},
    [MSG_TASK_HELD] = {central_on_task_held, WORKER},
    [MSG_HELD_END] = {central_on_held_end, WORKER},
    [MSG_APP] = {central_on_app, WORKER},
    [MSG_SERVES] = {central_on_serves, WORKER},
    [MSG_ENDS] = {central_on_ends, WORKER},
    [MSG_OUT_OF_SERVICE] = {central_on_out_of_service, WORKER},
    [MSG_DRAINING] = {central_on_draining, WORKER},
    [MSG_PARKED] = {central_on_parked, WORKER},
    [MSG_LONG_REQUEST] = {central_on_long_request, WORKER},
    [MSG_STUCK] = {central_on_stuck, WORKER},
    [MSG_TASK_PAUSED] = {central_on_task_paused, WORKER},
};

/* Notes whose message it is. False: it is not one that the sender may send now. */
static bool note_sender(struct central *c, const struct msg *m)
{
    enum sender from = handlers[m->type].from;

    if (from == HERE || from == JOURNAL)
        return from == HERE || !c->recovered;
    c->from = central_nodes_heard(c, m->peer);
    return c->from && (from == NODE || (c->from->role == ROLE_DIST) == (from == DIST));
}

/* ---- Steps ---- */

static void run_timers(struct central *c)
{
    central_nodes_run(c);
    central_tasks_run(c);
    central_journal_run(c);
    central_jobs_run(c);
    central_orphans_run(c);
    central_policy_run(c);
}

/* Does what the step made necessary, once, however many events caused it. */
static void finish_step(struct central *c)
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
    int64_t before_us = c->now_us;

    CHECK(e->now_us >= before_us);
    c->now_us = e->now_us;
    c->out = out;
    central_orphans_step(c, before_us);
    if (handlers[e->m.type].handle && note_sender(c, &e->m))
        handlers[e->m.type].handle(c, &e->m);
    run_timers(c);
    finish_step(c);
    c->out = NULL;
}

int64_t central_next_timeout(const struct central *c)
{
    int64_t at_us = earlier(c->retry_us, c->recall_us);

    if (c->stopped)
        return TIME_NEVER;
    at_us = earlier(at_us, central_nodes_due_us(c));
    at_us = earlier(at_us, central_tasks_due_us(c));
    at_us = earlier(at_us, central_jobs_due_us(c));
    at_us = earlier(at_us, central_orphans_due_us(c));
    at_us = earlier(at_us, central_partition_due_us(c));
    at_us = earlier(at_us, c->demand_us);
    at_us = earlier(at_us, central_members_due_us(c));
    return earlier(at_us, central_pairing_due_us(c));
}

static void step_role(void *role, const struct event *e, struct out *out) { central_step(role, e, out); }
static int64_t next_timeout(const void *role) { return central_next_timeout(role); }
static void check_role(const void *role) { central_check(role); }

const struct role_functions central_functions = {
    .step = step_role, .next_timeout = next_timeout, .check = check_role};
