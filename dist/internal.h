/* What the files of dist/ offer each other. */
#ifndef HAWK_DIST_INTERNAL_H
#define HAWK_DIST_INTERNAL_H

#include "dist/dist.h"

/* Twice the tasks of the largest job, as the papers probe; probes of one job at a time beyond it are not sent: with
 * SPLIT_COUNTS each is a message. At least LIMIT_TASKS_PER_JOB, so that no task goes without. */
#define PROBES_MAX (2 * LIMIT_TASKS_PER_JOB)
/* Live reservations of one job; what peers claim beyond it is not believed. */
#define LIVE_MAX (1u << 30)
#define REPORTS_MAX 1024u

/* ---- starts.c: workers that could not start tasks of a job ---- */
/* Slots in the job's pool of workers that it avoids; 0 also when there are no others. O(failures of the job). */
uint32_t dist_starts_avoided(struct dist *d, const struct dist_job *job);
bool dist_starts_avoid(struct dist *d, const struct dist_job *job, uint32_t node);
/* n could not start the task, which is launched there: it goes elsewhere, or has failed. */
void dist_starts_failed(struct dist *d, struct dist_job *job, struct dist_node *n,
                        const struct msg_task_finished *m);
/* Task i has started at that worker. */
void dist_starts_began(struct dist *d, struct dist_job *job, uint32_t i, uint32_t node);

static inline void dist_count(struct dist *d, enum counter c, uint64_t n) { d->counters[c] += n; }

/* ---- places.c: (job, worker) -> reservations and launched tasks ---- */
void dist_places_init(struct place_table *t);
void dist_places_free(struct place_table *t);
struct dist_place *dist_place_find(const struct dist *d, const struct dist_job *job,
                                   const struct dist_node *n);
/* Found or new. A new one must get a reservation or a task, or be given to dist_place_settle. */
struct dist_place *dist_place_get(struct dist *d, struct dist_job *job, struct dist_node *n);
/* Frees p when nothing is left there; p may dangle afterwards. */
void dist_place_settle(struct dist *d, struct dist_place *p);
/* n more reservations there, as far as LIVE_MAX allows. */
void dist_place_add_live(struct dist_place *p, uint32_t n);
/* Up to n fewer reservations there; returns how many. p may dangle afterwards. */
uint32_t dist_place_take_live(struct dist *d, struct dist_place *p, uint32_t n);
/* Frees all of a job's, which must have no task there. */
void dist_places_drop(struct dist *d, struct dist_job *job);

/* ---- jobs.c: the life of a job ---- */
struct dist_job *dist_job_find(const struct dist *d, job_id_t id);
struct dist_job *dist_job_new(struct dist *d, struct job_desc *desc, job_id_t id, uint64_t key);
/* The job is settled at the end of this step. What moves tasks, takes reservations or moves the hand-over does this by
 * itself; so must whatever else changes what dist_jobs_settle looks at: a timer, a refusal, the end of settling. */
static inline void dist_job_touch(struct dist *d, struct dist_job *job)
{
    if (list_empty(&job->in_touched))
        list_push_tail(&d->touched, &job->in_touched);
}
/* Reading the journal back: dist_on_recovered touches all jobs once everything is read. */
static inline void dist_job_untouch(struct dist_job *job) { list_remove(&job->in_touched); }
/* Cancels, probes for, or ends the jobs that were touched, as their tasks require. Once at the end of a step; in the
 * middle only where an answer depends on whether the job has ended. */
void dist_jobs_settle(struct dist *d);
void dist_job_set_state(struct dist *d, struct dist_job *job, enum job_state to);
/* Its tasks have ended: it is none of the unfinished any more. Its state is still to be set. */
void dist_job_close(struct dist *d, struct dist_job *job, int64_t end_us);
/* The client learns that it was accepted; once. */
void dist_job_accept(struct dist *d, struct dist_job *job);
/* The same, if whoever has to has it durably by now. */
void dist_job_try_accept(struct dist *d, struct dist_job *job);
/* For a dist that is about to leave: those that only wait for central's word are accepted. What the journal has comes back
 * with the dist. */
void dist_jobs_accept_durable(struct dist *d);
/* Whether a client waits for the journal to have its job. */
bool dist_jobs_journalling(const struct dist *d);
/* The client, who does not know of it yet, learns that it was not, and it is forgotten. */
void dist_job_reject(struct dist *d, struct dist_job *job, int err);
/* Cancels whatever of it did not end; what runs ends when its worker says so. */
void dist_job_cancel_rest(struct dist *d, struct dist_job *job);
void dist_jobs_trim(struct dist *d); /* drops the oldest finished ones beyond what is kept */
void dist_job_free(struct dist *d, struct dist_job *job);
void dist_reports_send(struct dist *d); /* what central is owed */
void dist_submit_refused(struct dist *d, uint32_t client, int err);
void dist_on_submit(struct dist *d, const struct msg *m);
void dist_on_cancel(struct dist *d, const struct msg *m);
void dist_on_watch(struct dist *d, const struct msg *m);
/* Cancels those whose clients have been gone for the grace time; when the next one is due. */
void dist_jobs_abandon(struct dist *d);
int64_t dist_jobs_next_abandoned(const struct dist *d);

/* ---- journal.c: what is written, and what waits for it ---- */
/* A job that is to be accepted; dist_job_journalled when that is done. */
void dist_journal_job(struct dist *d, struct dist_job *job);
/* What central has of it changed; its client cancelled it. Nothing when it is not in the journal. */
void dist_journal_change(struct dist *d, struct dist_job *job);
void dist_journal_cancel(struct dist *d, const struct dist_job *job);
void dist_journal_task(struct dist *d, struct dist_job *job, uint32_t i);
void dist_journal_launch(struct dist *d, const struct dist_job *job,
                         uint32_t i); /* dist_task_journalled when that is done */
void dist_journal_ended(struct dist *d, const struct dist_job *job);   /* it stays, to be looked at */
void dist_journal_job_end(struct dist *d, const struct dist_job *job); /* it goes */
void dist_journal_numbers(struct dist *d);                             /* dist.seq_end */
/* FINISH_ACK, and the answers to clients that cancelled or are refused, when all that was put out so far is durable. */
void dist_journal_ack(struct dist *d, uint32_t worker, const struct try_id *id);
void dist_journal_cancelled(struct dist *d, const struct dist_job *job, uint32_t client);
void dist_journal_refused(struct dist *d, const struct dist_job *job, int err);
/* Whether such a client waits, or a launch: on record but not sent, its task would be lost. */
bool dist_journal_awaited(const struct dist *d);
void dist_journal_rewrite(struct dist *d); /* what could not be written, when it is time */
void dist_journal_free(struct dist *d);
void dist_on_journal_done(struct dist *d, const struct msg *m);
/* jobs.c: the journal has it, or (err) has not. */
void dist_job_journalled(struct dist *d, struct dist_job *job, int err);

/* ---- recover.c: back from the journal ---- */
/* ---- numbers.c: job numbers (docs/protocol.md 11.8) ---- */
/* 0: the next one may be given out. HAWK_ENOT_REGISTERED: not yet; HAWK_EIO: the journal cannot be written; HAWK_ELIMIT. */
int dist_numbers_error(const struct dist *d);
job_id_t dist_numbers_next(struct dist *d);
void dist_numbers_joined(struct dist *d);
void dist_numbers_leave(struct dist *d); /* no more are given out */
void dist_on_journal_numbers(struct dist *d, const struct msg *in);

void dist_on_journal_job(struct dist *d, const struct msg *in);
void dist_on_journal_task(struct dist *d, const struct msg *in);
void dist_on_journal_cancel(struct dist *d, const struct msg *in);
void dist_on_journal_age(struct dist *d, const struct msg *in);
void dist_on_journal_ended(struct dist *d, const struct msg *in);
void dist_on_recovered(struct dist *d, const struct msg *m);
void dist_settle_begin(struct dist *d); /* joined: workers will say what they hold */
void dist_settle_look(struct dist *d);  /* the time has come */

/* Its tasks may outlive the cutoff: nobody said that it is short (DESIGN 3.6). */
static inline bool dist_job_promotable(const struct dist_job *job)
{
    return !job->probe_long && job->desc->tag == TAG_AUTO && (job->policy_flags & POLICY_PROMOTE);
}
/* It did not begin here, or in this life: it goes on under the policy of now, which may be one that probes for nothing
 * (central). Reservations that are lost are made good all the same. */
static inline void dist_job_begun_before(struct dist_job *job)
{
    job->policy_flags |= POLICY_REPROBE | POLICY_CANCEL_PROBES;
}
static inline bool dist_job_starved(const struct dist_job *job) { return job->wait == WAIT_STARVED; }
static inline bool dist_job_settling(const struct dist_job *job) { return job->wait == WAIT_SETTLING; }
static inline uint32_t dist_job_unfinished_tasks(const struct dist_job *job)
{
#define X(name, text, phase) +((phase) == PHASE_FINAL ? 0 : job->in[name])
    return 0 TASK_STATES(X);
#undef X
}

/* ---- tasks.c: late binding and completions ---- */
/* Moves task i; place is where it is to be launched or running, NULL for any other state. */
void dist_task_set_state(struct dist *d, struct dist_job *job, uint32_t i, enum task_state to,
                         struct dist_place *place);
/* It started `run_us` ago. */
void dist_task_started(struct dist *d, struct dist_job *job, uint32_t i, int64_t run_us);
void dist_task_finish(struct dist *d, struct dist_job *job, uint32_t i, enum outcome outcome, int32_t code,
                      int64_t run_us);
/* How long its tasks take by what those of ours show that ran: the mean of the run times of those that exited 0 and of the
 * ages of those that run. 0: none has run. */
int64_t dist_job_shown_us(const struct dist *d, const struct dist_job *job);
/* Its worker was lost: it waits again, or ends when no retry is left. */
void dist_task_return(struct dist *d, struct dist_job *job, uint32_t i);
struct try_id dist_task_try(const struct dist_job *job, uint32_t i);
/* Of a task that has not ended. */
static inline bool dist_task_may_retry(const struct dist_job *job, const struct dist_task *t)
{
    return !(job->desc->flags & JOB_AT_MOST_ONCE) && t->attempt <= job->desc->retries + t->refused &&
           t->attempt < UINT16_MAX;
}
/* Nothing of the try has run, whatever the job says of retries: it waits again. */
void dist_task_refused(struct dist *d, struct dist_job *job, uint32_t i);
/* Our job that this is a try of, or NULL when we schedule no such task or never launched that attempt. */
struct dist_job *dist_task_own_job(const struct dist *d, const struct try_id *id);
/* The launch of task i is on record, or (err) cannot be: it is sent, or given up. Stale ones do nothing. */
void dist_task_journalled(struct dist *d, const struct try_id *id, int err);
/* Its tasks whose launch was not sent wait again, or are cancelled. */
void dist_tasks_unlaunch(struct dist *d, struct dist_job *job);
/* The tasks of a job just made, as its client knows them. */
void dist_tasks_restore(struct dist *d, struct dist_job *job, const struct resubmit *r);
/* What a job that was moved here, or read back, has to launch may have been launched before: lost, when it must not run twice. */
void dist_tasks_doubt(struct dist *d, struct dist_job *job);
/* A waiting task of ours is central's. */
void dist_task_hand(struct dist_job *job, uint32_t i);
/* A waiting task of central's is ours again. */
void dist_task_give_back(struct dist_job *job, uint32_t i);
/* Task i, if it waits to be launched for the first time, may be taken out of turn from now on. */
void dist_task_reach(struct dist_job *job, uint32_t i);
void dist_on_task_request(struct dist *d, const struct msg *m);
void dist_on_task_started(struct dist *d, const struct msg *m);
void dist_on_task_finished(struct dist *d, const struct msg *m);
void dist_on_task_held(struct dist *d, const struct msg *m);

/* ---- probe.c ---- */
/* Sends n probes (at most PROBES_MAX) for the job, or lets it wait for a worker. */
void dist_probe_job(struct dist *d, struct dist_job *job, uint64_t n);
/* The probes of a job just accepted. */
void dist_probe_first(struct dist *d, struct dist_job *job);
/* Cancels or sends probes when there are too many or too few. */
void dist_probe_settle(struct dist *d, struct dist_job *job);
/* Takes back every live reservation of the job. */
/* n is to drop all that it has of the job. */
void dist_probe_take_back(struct dist *d, struct dist_job *job, const struct dist_node *n);
void dist_probe_cancel_all(struct dist *d, struct dist_job *job);
/* Puts the job into list l, which is that of `wait`; WAIT_NOT: l is NULL. */
void dist_probe_wait(struct dist_job *job, enum probe_wait wait, struct list *l);
/* Takes the job off timers and lists of those that want probes. */
void dist_probe_forget(struct dist *d, struct dist_job *job);
/* Job's timer is due. */
void dist_probe_timer(struct dist *d, struct dist_job *job);
/* Worker n can be drawn from p from now on. */
void dist_probe_pool_grew(struct dist *d, struct dist_pool *p, struct dist_node *n);
/* A worker was lost, and with it, maybe, the news that reservations had moved there. */
void dist_probe_doubt(struct dist *d);
void dist_probe_audit(struct dist *d);
enum pool dist_probe_pool(const struct dist *d, const struct dist_job *job);
/* Jobs are drawn for from other pools than before. */
void dist_probe_pools_changed(struct dist *d);
/* The pool its probes are drawn from. */
static inline struct dist_pool *dist_probe_pool_of(struct dist *d, const struct dist_job *job)
{
    return &(job->app ? job->app->pool : d->pool)[dist_probe_pool(d, job)];
}
void dist_on_probe_refused(struct dist *d, const struct msg *m);
void dist_on_probe_cancelled(struct dist *d, const struct msg *m);
void dist_on_res_moved(struct dist *d, const struct msg *m);

/* ---- apps.c: applications, and what their tasks return ---- */
void dist_pools_init(struct dist_pool pool[POOL_COUNT]);
void dist_pools_free(struct dist_pool pool[POOL_COUNT]);
void dist_job_join_app(struct dist *d, struct dist_job *job);
void dist_job_leave_app(struct dist *d, struct dist_job *job);
void dist_apps_free(struct dist *d); /* nodes and jobs are gone */
/* It serves nothing any more, as far as we know. */
void dist_node_forget_apps(struct dist *d, struct dist_node *n);
void dist_on_app(struct dist *d, const struct msg *in);
/* Memory for what its client and its tasks have given us. */
uint64_t dist_job_bytes(const struct dist_job *job);
/* What task i, which has not ended yet, returned. False: there is no room for it, and a message says so. */
bool dist_task_keep_result(struct dist *d, struct dist_job *job, uint32_t i, struct blob *result);
void dist_job_free_results(struct dist_job *job);
void dist_on_long_result(struct dist *d, const struct msg *m);

/* ---- nodes.c: who is there ---- */
struct dist_node *dist_node_find(const struct dist *d, uint32_t id);
/* Puts n into the pools it belongs to and takes it out of the others. */
void dist_node_update_pools(struct dist *d, struct dist_node *n);
void dist_on_members(struct dist *d, const struct msg *in);
void dist_on_member(struct dist *d, const struct msg *in);
void dist_node_up(struct dist *d, uint32_t id, const struct msg_peer_up *m);
void dist_node_lost(struct dist *d, uint32_t id);
void dist_on_held_end(struct dist *d, const struct msg *m);
/* Asks those that something is waited for whether they are there, and gives up those that did not answer. */
void dist_nodes_beat(struct dist *d);
void dist_on_beat(struct dist *d, const struct msg *m);
void dist_nodes_free(struct dist *d);

/* ---- handover.c: what central has of our jobs ---- */
/* Gives the job's waiting tasks to central, under `epoch`. */
void dist_hand_over(struct dist *d, struct dist_job *job, uint16_t epoch);
/* The same for a job that central must have already. */
void dist_handover_claim(struct dist *d, struct dist_job *job, uint16_t epoch);
/* The job's client asked other dists to take it, under epochs before this one, and stays here: central is to obey this
 * dist, not one that took the job unheard. */
void dist_handover_stay(struct dist *d, struct dist_job *job, uint16_t epoch);
/* Asks central which of the job's waiting tasks it has under `epoch`; those it does not have come back. */
void dist_handover_ask(struct dist *d, struct dist_job *job, uint16_t epoch);
/* The journal has this change of it. */
void dist_handover_journalled(struct dist *d, struct dist_job *job, uint64_t token);
/* Read back: central has, or may have, under its epoch, these of its tasks; NULL: all. */
void dist_handover_recover(struct dist *d, struct dist_job *job, const struct task_set *set);
/* Read back after that: the job has ended. */
void dist_handover_recover_ended(struct dist *d, struct dist_job *job);
/* The tasks of central's that did not end; NULL stands for all of the job's. */
struct task_set *dist_handover_tasks(const struct dist_job *job);
/* Offers it to central, if central can be reached; otherwise when it can. */
void dist_handover_offer(struct dist *d, struct dist_job *job);
/* Its timer is over: it is offered again, unless no client watches it here. */
void dist_handover_timer(struct dist *d, struct dist_job *job);
/* Its tasks wait for central's word. */
static inline bool dist_handover_pending(const struct dist_job *job)
{
    return HANDS_PENDING >> job->hand & 1;
}
/* Central has something of it, or may have. */
static inline bool dist_handover_may_have(const struct dist_job *job)
{
    return job->offers > 0 && job->central_n > 0;
}
/* Whether a refusal of central's makes the job wait for its timer, and then be offered again: a long job. The tasks of one
 * that was to be promoted come back instead. */
static inline bool dist_handover_has_timer(const struct dist_job *job)
{
    return dist_handover_pending(job) && (epoch_is_dists(job->epoch) || job->promoted);
}
/* "OFFERED" */
const char *dist_handover_name(enum hand_over hand);
/* Whether the table has this move. */
bool dist_handover_may_move(enum hand_over from, enum hand_over to);
/* If what its tasks show is at least the cutoff, the job is long, and what was not launched goes to central, if it may. At
 * most once in an ownership, and not without central. */
void dist_handover_promote(struct dist *d, struct dist_job *job);
void dist_handover_cancel(struct dist *d, struct dist_job *job);
void dist_handover_central_up(struct dist *d);
void dist_handover_central_lost(struct dist *d);
/* We are about to leave: what central was to get and did not is on record so. */
void dist_handover_leave(struct dist *d);
void dist_on_long_accepted(struct dist *d, const struct msg *m);
void dist_on_long_refused(struct dist *d, const struct msg *m);
void dist_on_long_task(struct dist *d, const struct msg *m);
void dist_on_long_message(struct dist *d, const struct msg *m);
void dist_on_long_watched(struct dist *d, const struct msg *m);
void dist_on_task_overrun(struct dist *d, const struct msg *m);

#endif
