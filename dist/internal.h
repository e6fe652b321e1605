/* What the files of dist/ offer each other. */
#ifndef HAWK_DIST_INTERNAL_H
#define HAWK_DIST_INTERNAL_H

#include "dist/dist.h"

/* One step: the object, its time and its output. */
struct step {
    struct dist *d;
    int64_t now;
    struct out *out;
};

/* Twice the tasks of the largest job, as the papers probe; probes of one job at a time beyond it are not sent: with
 * SPLIT_COUNTS each is a message. At least LIMIT_TASKS_PER_JOB, so that no task goes without. */
#define PROBES_MAX (2 * LIMIT_TASKS_PER_JOB)
/* Live reservations of one job; what peers claim beyond it is not believed. */
#define LIVE_MAX (1u << 30)
#define REPORTS_MAX 1024u

/* ---- starts.c: workers that could not start tasks of a job ---- */
/* Slots in the job's pool of workers that it avoids; 0 also when there are no others. O(failures of the job). */
uint32_t starts_avoided(struct dist *d, const struct dist_job *job);
bool starts_avoid(struct dist *d, const struct dist_job *job, uint32_t node);
/* n could not start the task, which is launched there: it goes elsewhere, or has failed. */
void starts_failed(struct step *s, struct dist_job *job, struct dist_node *n,
                   const struct msg_task_finished *m);
/* Task i has started at that worker. */
void starts_began(struct step *s, struct dist_job *job, uint32_t i, uint32_t node);

static inline void count(struct step *s, enum counter c, uint64_t n) { s->d->counters[c] += n; }

/* ---- places.c: (job, worker) -> reservations and launched tasks ---- */
void places_init(struct place_table *t);
void places_free(struct place_table *t);
struct dist_place *place_find(const struct dist *d, const struct dist_job *job, const struct dist_node *n);
/* Found or new. A new one must get a reservation or a task, or be given to place_settle. */
struct dist_place *place_get(struct dist *d, struct dist_job *job, struct dist_node *n);
/* Frees p when nothing is left there; p may dangle afterwards. */
void place_settle(struct dist *d, struct dist_place *p);
/* n more reservations there, as far as LIVE_MAX allows. */
void place_add_live(struct dist_place *p, uint32_t n);
/* Up to n fewer reservations there; returns how many. p may dangle afterwards. */
uint32_t place_take_live(struct dist *d, struct dist_place *p, uint32_t n);
/* Frees all of a job's, which must have no task there. */
void places_drop(struct dist *d, struct dist_job *job);

/* ---- jobs.c: the life of a job ---- */
struct dist_job *job_find(const struct dist *d, job_id_t id);
struct dist_job *job_new(struct step *s, struct job_desc *desc, job_id_t id, uint64_t key);
/* The job is settled at the end of this step. What moves tasks, takes reservations or moves the hand-over does this by
 * itself; so must whatever else changes what jobs_settle looks at: a timer, a refusal, the end of settling. */
static inline void job_touch(struct dist *d, struct dist_job *job)
{
    if (list_empty(&job->in_touched))
        list_push_tail(&d->touched, &job->in_touched);
}
/* Reading the journal back: on_recovered touches all jobs once everything is read. */
static inline void job_untouch(struct dist_job *job) { list_remove(&job->in_touched); }
/* Cancels, probes for, or ends the jobs that were touched, as their tasks require. Once at the end of a step; in the
 * middle only where an answer depends on whether the job has ended. */
void jobs_settle(struct step *s);
void job_set_state(struct step *s, struct dist_job *job, enum job_state to);
/* Its tasks have ended: it is none of the unfinished any more. Its state is still to be set. */
void job_close(struct step *s, struct dist_job *job, int64_t end_us);
/* The client learns that it was accepted; once. */
void job_accept(struct step *s, struct dist_job *job);
/* The same, if whoever has to has it durably by now. */
void job_try_accept(struct step *s, struct dist_job *job);
/* For a dist that is about to leave: those that only wait for central's word are accepted. What the journal has comes back
 * with the dist. */
void jobs_accept_durable(struct step *s);
/* Whether a client waits for the journal to have its job. */
bool jobs_journalling(const struct dist *d);
/* The client, who does not know of it yet, learns that it was not, and it is forgotten. */
void job_reject(struct step *s, struct dist_job *job, int err);
/* Cancels whatever of it did not end; what runs ends when its worker says so. */
void job_cancel_rest(struct step *s, struct dist_job *job);
void jobs_trim(struct step *s); /* drops the oldest finished ones beyond what is kept */
void job_free(struct dist *d, struct dist_job *job);
void reports_send(struct step *s); /* what central is owed */
void submit_refused(struct step *s, uint32_t client, int err);
void on_submit(struct step *s, const struct msg *m);
void on_cancel(struct step *s, const struct msg *m);
void on_watch(struct step *s, const struct msg *m);
/* Cancels those whose clients have been gone for the grace time; when the next one is due. */
void jobs_abandon(struct step *s);
int64_t jobs_next_abandoned(const struct dist *d);

/* ---- journal.c: what is written, and what waits for it ---- */
/* A job that is to be accepted; job_journalled when that is done. */
void journal_job(struct step *s, struct dist_job *job);
/* What central has of it changed; its client cancelled it. Nothing when it is not in the journal. */
void journal_change(struct step *s, struct dist_job *job);
void journal_cancel(struct step *s, const struct dist_job *job);
void journal_task(struct step *s, struct dist_job *job, uint32_t i);
void journal_launch(struct step *s, const struct dist_job *job,
                    uint32_t i);                                  /* task_journalled when that is done */
void journal_ended(struct step *s, const struct dist_job *job);   /* it stays, to be looked at */
void journal_job_end(struct step *s, const struct dist_job *job); /* it goes */
void journal_numbers(struct step *s);                             /* dist.seq_end */
/* FINISH_ACK, and the answers to clients that cancelled or are refused, when all that was put out so far is durable. */
void journal_ack(struct step *s, uint32_t worker, const struct try_id *id);
void journal_cancelled(struct step *s, const struct dist_job *job, uint32_t client);
void journal_refused(struct step *s, const struct dist_job *job, int err);
/* Whether such a client waits, or a launch: on record but not sent, its task would be lost. */
bool journal_awaited(const struct dist *d);
void journal_rewrite(struct step *s); /* what could not be written, when it is time */
void journal_free(struct dist *d);
void on_journal_done(struct step *s, const struct msg *m);
/* jobs.c: the journal has it, or (err) has not. */
void job_journalled(struct step *s, struct dist_job *job, int err);

/* ---- recover.c: back from the journal ---- */
/* ---- numbers.c: job numbers (docs/protocol.md 11.8) ---- */
/* 0: the next one may be given out. HAWK_ENOT_REGISTERED: not yet; HAWK_EIO: the journal cannot be written; HAWK_ELIMIT. */
int numbers_error(const struct dist *d);
job_id_t numbers_next(struct step *s);
void numbers_joined(struct step *s);
void numbers_leave(struct step *s); /* no more are given out */
void on_recover_numbers(struct step *s, const struct msg_journal_numbers *m);

void on_recover_job(struct step *s, const struct msg_journal_job *m);
void on_recover_task(struct step *s, const struct msg_journal_task *m);
void on_recover_cancel(struct step *s, const struct msg_journal_cancel *m);
void on_recover_age(struct step *s, const struct msg_journal_age *m);
void on_recover_ended(struct step *s, const struct msg_journal_ended *m);
void on_recovered(struct step *s);
void settle_begin(struct step *s); /* joined: workers will say what they hold */
void settle_look(struct step *s);  /* the time has come */

/* Its tasks may outlive the cutoff: nobody said that it is short (DESIGN 3.6). */
static inline bool job_promotable(const struct dist_job *job)
{
    return !job->probe_long && job->desc->tag == TAG_AUTO && (job->policy_flags & POLICY_PROMOTE);
}
/* It did not begin here, or in this life: it goes on under the policy of now, which may be one that probes for nothing
 * (central). Reservations that are lost are made good all the same. */
static inline void job_begun_before(struct dist_job *job)
{
    job->policy_flags |= POLICY_REPROBE | POLICY_CANCEL_PROBES;
}
static inline bool job_starved(const struct dist_job *job) { return job->wait == WAIT_STARVED; }
static inline bool job_settling(const struct dist_job *job) { return job->wait == WAIT_SETTLING; }
static inline uint32_t job_unfinished_tasks(const struct dist_job *job)
{
#define X(name, text, phase) +((phase) == PHASE_FINAL ? 0 : job->in[name])
    return 0 TASK_STATES(X);
#undef X
}

/* ---- tasks.c: late binding and completions ---- */
/* Moves task i; place is where it is to be launched or running, NULL for any other state. */
void task_set_state(struct step *s, struct dist_job *job, uint32_t i, enum task_state to,
                    struct dist_place *place);
/* It started `run_us` ago. */
void task_started(struct step *s, struct dist_job *job, uint32_t i, int64_t run_us);
void task_finish(struct step *s, struct dist_job *job, uint32_t i, enum outcome outcome, int32_t code,
                 int64_t run_us);
/* Its worker was lost: it waits again, or ends when no retry is left. */
void task_return(struct step *s, struct dist_job *job, uint32_t i);
/* Why a task that is about to end could not be started; text may be NULL. */
void task_keep_message(struct dist_job *job, uint32_t i, struct blob *text);
void task_forget_messages(struct dist_job *job);
struct try_id task_try(const struct dist_job *job, uint32_t i);
/* Of a task that has not ended. */
static inline bool task_may_retry(const struct dist_job *job, const struct dist_task *t)
{
    return !(job->desc->flags & JOB_AT_MOST_ONCE) && t->attempt <= job->desc->retries + t->refused &&
           t->attempt < UINT16_MAX;
}
/* Nothing of the try has run, whatever the job says of retries: it waits again. */
void task_refused(struct step *s, struct dist_job *job, uint32_t i);
/* Our job that this is a try of, or NULL when we schedule no such task or never launched that attempt. */
struct dist_job *task_own_job(const struct dist *d, const struct try_id *id);
/* The launch of task i is on record, or (err) cannot be: it is sent, or given up. Stale ones do nothing. */
void task_journalled(struct step *s, const struct try_id *id, int err);
/* Its tasks whose launch was not sent wait again, or are cancelled. */
void tasks_unlaunch(struct step *s, struct dist_job *job);
/* The tasks of a job just made, as its client knows them. */
void tasks_restore(struct step *s, struct dist_job *job, const struct resubmit *r);
/* What a job that was moved here, or read back, has to launch may have been launched before: lost, when it must not run twice. */
void tasks_doubt(struct step *s, struct dist_job *job);
/* A waiting task of ours is central's. */
void task_hand(struct dist_job *job, uint32_t i);
/* A waiting task of central's is ours again. */
void task_give_back(struct dist_job *job, uint32_t i);
/* Task i, if it waits to be launched for the first time, may be taken out of turn from now on. */
void task_reach(struct dist_job *job, uint32_t i);
void on_task_request(struct step *s, struct dist_node *n, const struct msg *m);
void on_task_started(struct step *s, struct dist_node *n, const struct msg *m);
void on_task_finished(struct step *s, struct dist_node *n, const struct msg *m);
void on_task_held(struct step *s, struct dist_node *n, const struct msg *m);

/* ---- probe.c ---- */
/* Sends n probes (at most PROBES_MAX) for the job, or lets it wait for a worker. */
void probe_job(struct step *s, struct dist_job *job, uint64_t n);
/* The probes of a job just accepted. */
void probe_first(struct step *s, struct dist_job *job);
/* Cancels or sends probes when there are too many or too few. */
void probe_settle(struct step *s, struct dist_job *job);
/* Takes back every live reservation of the job. */
/* n is to drop all that it has of the job. */
void probe_take_back(struct step *s, struct dist_job *job, const struct dist_node *n);
void probe_cancel_all(struct step *s, struct dist_job *job);
/* Puts the job into list l, which is that of `wait`; WAIT_NOT: l is NULL. */
void probe_wait(struct dist_job *job, enum probe_wait wait, struct list *l);
/* Takes the job off timers and lists of those that want probes. */
void probe_forget(struct step *s, struct dist_job *job);
/* Job's timer is due. */
void probe_timer(struct step *s, struct dist_job *job);
/* Worker n can be drawn from p from now on. */
void probe_pool_grew(struct step *s, struct dist_pool *p, struct dist_node *n);
/* A worker was lost, and with it, maybe, the news that reservations had moved there. */
void probe_doubt(struct step *s);
void probe_audit(struct step *s);
enum pool probe_pool(const struct dist *d, const struct dist_job *job);
/* Jobs are drawn for from other pools than before. */
void probe_pools_changed(struct step *s);
/* The pool its probes are drawn from. */
static inline struct dist_pool *probe_pool_of(struct dist *d, const struct dist_job *job)
{
    return &(job->app ? job->app->pool : d->pool)[probe_pool(d, job)];
}
void on_probe_refused(struct step *s, struct dist_node *n, const struct msg *m);
void on_probe_cancelled(struct step *s, const struct msg *m);
void on_res_moved(struct step *s, struct dist_node *n, const struct msg *m);

/* ---- apps.c: applications, and what their tasks return ---- */
void pools_init(struct dist_pool pool[POOL_COUNT]);
void pools_free(struct dist_pool pool[POOL_COUNT]);
void job_join_app(struct dist *d, struct dist_job *job);
void job_leave_app(struct dist *d, struct dist_job *job);
void dist_apps_free(struct dist *d); /* nodes and jobs are gone */
/* It serves nothing any more, as far as we know. */
void node_forget_apps(struct step *s, struct dist_node *n);
void on_app(struct step *s, const struct msg_app *m);
/* Memory for what its client and its tasks have given us. */
uint64_t job_bytes(const struct dist_job *job);
/* What task i, which has not ended yet, returned. False: there is no room for it, and a message says so. */
bool task_keep_result(struct step *s, struct dist_job *job, uint32_t i, struct blob *result);
void job_free_results(struct dist_job *job);
void on_long_result(struct step *s, const struct msg *m);

/* ---- nodes.c: who is there ---- */
struct dist_node *node_find(const struct dist *d, uint32_t id);
/* Puts n into the pools it belongs to and takes it out of the others. */
void node_update_pools(struct step *s, struct dist_node *n);
void on_members(struct step *s, const struct members *list);
void on_member(struct step *s, const struct msg_member *m);
void on_node_up(struct step *s, uint32_t id, const struct msg_peer_up *m);
void on_node_lost(struct step *s, uint32_t id);
void on_held_end(struct step *s, struct dist_node *n);
/* Asks those that something is waited for whether they are there, and gives up those that did not answer. */
void nodes_beat(struct step *s);
void on_beat(struct step *s, struct dist_node *n, const struct msg *m);
void nodes_free(struct dist *d);

/* ---- handover.c: what central has of our jobs ---- */
/* Gives the job's waiting tasks to central, under `epoch`. */
void hand_over(struct step *s, struct dist_job *job, uint16_t epoch);
/* The same for a job that central must have already. */
void hand_claim(struct step *s, struct dist_job *job, uint16_t epoch);
/* Asks central which of the job's waiting tasks it has under `epoch`; those it does not have come back. */
void hand_ask(struct step *s, struct dist_job *job, uint16_t epoch);
/* The journal has this change of it. */
void hand_journalled(struct step *s, struct dist_job *job, uint64_t token);
/* Read back: central has, or may have, under its epoch, these of its tasks; NULL: all. */
void hand_recover(struct step *s, struct dist_job *job, const struct task_set *set);
/* Read back after that: the job has ended. */
void hand_recover_ended(struct step *s, struct dist_job *job);
/* The tasks of central's that did not end; NULL stands for all of the job's. */
struct task_set *hand_tasks(const struct dist_job *job);
/* Offers it to central, if central can be reached; otherwise when it can. */
void hand_offer(struct step *s, struct dist_job *job);
/* Its tasks wait for central's word. */
static inline bool hand_pending(const struct dist_job *job) { return HANDS_PENDING >> job->hand & 1; }
/* Central has something of it, or may have. */
static inline bool hand_may_have(const struct dist_job *job) { return job->offers > 0 && job->central_n > 0; }
/* Whether a refusal of central's makes the job wait for its timer, and then be offered again: a long job. The tasks of one
 * that was to be promoted come back instead. */
static inline bool hand_has_timer(const struct dist_job *job)
{
    return hand_pending(job) && (epoch_is_dists(job->epoch) || job->promoted);
}
/* "OFFERED" */
const char *hand_name(enum hand_over hand);
/* Whether the table has this move. */
bool hand_may_move(enum hand_over from, enum hand_over to);
/* A task of it has outlived the cutoff: what was not launched goes to central, if it may. */
void hand_promote(struct step *s, struct dist_job *job);
void hand_cancel(struct step *s, struct dist_job *job);
void hand_central_up(struct step *s);
void hand_central_lost(struct step *s);
/* We are about to leave: what central was to get and did not is on record so. */
void hand_leave(struct step *s);
void on_long_accepted(struct step *s, const struct msg *m);
void on_long_refused(struct step *s, const struct msg *m);
void on_long_task(struct step *s, const struct msg *m);
void on_long_message(struct step *s, const struct msg *m);
void on_long_watched(struct step *s, const struct msg *m);
void on_task_overrun(struct step *s, const struct msg *m);

#endif
