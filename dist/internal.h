/* Declarations that the files of dist/ share. */
#ifndef HAWK_DIST_INTERNAL_H
#define HAWK_DIST_INTERNAL_H

#include "dist/dist.h"

/* Most probes of one job at a time: twice the tasks of the largest job, as the papers probe. With
 * SPLIT_COUNTS each probe is a message. At least LIMIT_TASKS_PER_JOB, so that every task gets a probe. */
#define PROBES_MAX (2 * LIMIT_TASKS_PER_JOB)
/* Most live reservations of one job; the dist ignores what peers claim beyond it. */
#define LIVE_MAX (1u << 30)
#define REPORTS_MAX 1024u

/* ---- starts.c: workers that could not start tasks of a job ---- */
/* Slots of workers in the job's pool that it avoids; 0 also if the pool has no other workers where it fits. O(failures
 * of the job + workers that have an end). */
uint32_t dist_starts_avoided(struct dist *d, const struct dist_job *job);
bool dist_starts_avoid(struct dist *d, const struct dist_job *job, uint32_t node);
/* n could not start the task that was launched there: the task goes elsewhere, or has failed. */
void dist_starts_failed(struct dist *d, struct dist_job *job, struct dist_node *n,
                        const struct msg_task_finished *m);
/* Task i has started at that worker. */
void dist_starts_began(struct dist *d, struct dist_job *job, uint32_t i, uint32_t node);

static inline void dist_count(struct dist *d, enum counter c, uint64_t n) { d->counters[c] += n; }

/* ---- places.c: the reservations and launched tasks of a (job, worker) ---- */
void dist_places_init(struct place_table *t);
void dist_places_free(struct place_table *t);
struct dist_place *dist_place_find(const struct dist *d, const struct dist_job *job,
                                   const struct dist_node *n);
/* Finds or makes the place. A new one must get a reservation or a task, or go to dist_place_settle(). */
struct dist_place *dist_place_get(struct dist *d, struct dist_job *job, struct dist_node *n);
/* Frees p if it is empty; p may dangle afterwards. */
void dist_place_settle(struct dist *d, struct dist_place *p);
/* Adds n reservations, as far as LIVE_MAX allows. */
void dist_place_add_live(struct dist_place *p, uint32_t n);
/* Removes up to n reservations; returns how many. p may dangle afterwards. */
uint32_t dist_place_take_live(struct dist *d, struct dist_place *p, uint32_t n);
/* Frees all places of a job, which must not have tasks there. */
void dist_places_drop(struct dist *d, struct dist_job *job);

/* ---- users.c: what each user has here ---- */
/* The job is unfinished from now on, or not any more. */
void dist_user_add(struct dist *d, const struct job_desc *desc);
void dist_user_remove(struct dist *d, const struct dist_job *job);
/* Counts a result of an unfinished job for its user. False: with it he would have more than half of
 * cfg.unfinished_bytes_max, so that others' results find room. Nobody has no such limit. */
HAWK_MUST_USE bool dist_user_keeps(struct dist *d, const struct job_desc *desc, uint64_t bytes);
/* The job is finished from now on, or about to be freed. */
void dist_user_ended(struct dist *d, struct dist_job *job);
void dist_user_forgets(struct dist *d, struct dist_job *job);
/* The finished job that makes room for the others; NULL: there is room. */
struct dist_job *dist_users_excess(const struct dist *d);
void dist_users_check(const struct dist *d);
void dist_users_free(struct dist *d);

/* ---- jobs.c: the life of a job ---- */
struct dist_job *dist_job_find(const struct dist *d, job_id_t id);
struct dist_job *dist_job_new(struct dist *d, struct job_desc *desc, job_id_t id, uint64_t key);
/* From here on the job is scheduled by the policy that is in force now. */
void dist_job_take_policy(const struct dist *d, struct dist_job *job);
/* The job is settled at the end of this step. Functions that move tasks, take reservations or move the
 * hand-over touch it themselves. Whatever else changes what dist_jobs_settle() looks at must do so, too: a
 * timer, a refusal, the end of settling. */
static inline void dist_job_touch(struct dist *d, struct dist_job *job)
{
    if (list_empty(&job->in_touched))
        list_push_tail(&d->touched, &job->in_touched);
}
/* Cancels, probes for, or ends the touched jobs. Once at the end of a step; in the middle of it only if an
 * answer depends on whether the job has ended. */
void dist_jobs_settle(struct dist *d);
void dist_job_set_state(struct dist *d, struct dist_job *job, enum job_state to);
/* All tasks of the job have ended: counts it as finished. The caller still sets its state. */
void dist_job_close(struct dist *d, struct dist_job *job, int64_t end_us);
/* The job's timer: one at a time. Starting it ends the one that runs. */
void dist_job_timer_start(struct dist *d, struct dist_job *job, enum job_timer what, int64_t at_us);
void dist_job_timer_stop(struct dist *d, struct dist_job *job);
static inline bool dist_job_awaits(const struct dist_job *job, enum job_timer what)
{
    return heap_in(&job->timer) && job->timer_for == what;
}
/* Tells the client that the job is accepted, once, if journal and central have it durably, as far as they must. */
void dist_job_try_accept(struct dist *d, struct dist_job *job);
/* For a dist that is about to leave: accepts jobs that are in the journal and wait only for central's word.
 * They come back with the dist. */
void dist_jobs_accept_durable(struct dist *d);
/* Tells the client, which has no answer yet, that the job was refused, and forgets it. */
void dist_job_reject(struct dist *d, struct dist_job *job, int err);
void dist_job_free(struct dist *d, struct dist_job *job);
void dist_submit_refused(struct dist *d, uint32_t client, int err);
void dist_on_submit(struct dist *d, const struct msg *m);
void dist_on_watch(struct dist *d, const struct msg *m);
/* dist_jobs_abandon() cancels jobs that nobody has watched for the grace time; the other says when the next
 * one is due. */
void dist_jobs_abandon(struct dist *d);
int64_t dist_jobs_next_abandoned(const struct dist *d);
/* The finished job is about to be freed. */
void dist_job_finished_out(struct dist *d, struct dist_job *job);
/* The journal has the job, or (err) does not. */
void dist_job_journalled(struct dist *d, struct dist_job *job, int err);

/* ---- cancel.c: cancelling jobs, and single tasks (docs/protocol.md 3.12) ---- */
/* Cancels all tasks of the job that have not ended; a running task ends when its worker says so. */
void dist_job_cancel_rest(struct dist *d, struct dist_job *job);
void dist_on_cancel(struct dist *d, const struct msg *m);

/* Whether the task is to end: its client cancelled it, or the job is being cancelled. */
bool dist_task_unwanted(const struct dist_job *job, uint32_t i);
/* Adds these tasks to job->unwanted. */
void dist_unwanted_add(struct dist_job *job, const struct task_set *tasks);
/* Whether the task was cancelled, by its client or with its job, before it was ever launched: no record has its end. */
static inline bool dist_task_left_out(const struct dist_job *job, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];

    return t->state == TASK_CANCELLED && t->attempt == 0 && dist_task_unwanted(job, i);
}
/* If some may have come back: ends those of job->unwanted that nobody runs, and drops those whose end has a record. */
void dist_unwanted_settle(struct dist *d, struct dist_job *job);
void dist_unwanted_drop(struct dist_job *job);
/* Tells the task's worker to end it. False: that worker has no stream; it is told when it names the task. */
bool dist_task_stop(struct dist *d, const struct dist_job *job, uint32_t i);

/* ---- times.c: finished jobs, and what is told of them ---- */
/* Forgets finished jobs beyond what is kept: the oldest of the user who has most, as in base/crowd.h. */
void dist_jobs_trim(struct dist *d);
/* Reports the job to history, unless central has it as a whole, and so writes its history itself. */
void dist_job_report(struct dist *d, const struct dist_job *job);
void dist_reports_send(struct dist *d); /* sends finished jobs' reports that central has not got */
/* When the oldest finished job has been kept for long enough; TIME_NEVER: never. */
int64_t dist_jobs_next_forgotten(const struct dist *d);
void dist_times_note(struct dist *d, const struct dist_job *job); /* job has ended */

/* ---- journal.c: what is written, and what waits for it ---- */
/* Writes a job that is to be accepted; dist_job_journalled() follows. */
void dist_journal_job(struct dist *d, struct dist_job *job);
/* dist_journal_change(): central's part of the job changed. dist_journal_cancel(): its client cancelled it.
 * Nothing happens if the job is not in the journal. */
void dist_journal_change(struct dist *d, struct dist_job *job);
void dist_journal_cancel(struct dist *d, const struct dist_job *job);
void dist_journal_task(struct dist *d, struct dist_job *job, uint32_t i);
void dist_journal_failure(struct dist *d, const struct dist_job *job, uint32_t i);
void dist_journal_launch(struct dist *d, const struct dist_job *job,
                         uint32_t i); /* dist_task_launch_journalled() follows */
void dist_journal_ended(struct dist *d, const struct dist_job *job);   /* the job has ended, and is kept */
void dist_journal_job_end(struct dist *d, const struct dist_job *job); /* the job is forgotten */
void dist_journal_numbers(struct dist *d);                             /* writes dist.seq_end */
/* Whether it is held, and which predecessors it waits for no longer. */
void dist_journal_waits(struct dist *d, const struct dist_job *job);
void dist_cancel_answer(struct dist *d, job_id_t job, uint32_t client, int err); /* to CANCEL, at once */
void dist_finish_ack(struct dist *d, uint32_t worker, const struct try_id *id);  /* if it is there, at once */
/* Send FINISH_ACK, and the answers to clients that cancelled or are refused, when everything put out so far
 * is durable. */
void dist_journal_finish_ack(struct dist *d, uint32_t worker, const struct try_id *id);
void dist_journal_cancelled(struct dist *d, const struct dist_job *job, uint32_t client);
void dist_journal_refused(struct dist *d, const struct dist_job *job, int err);
void dist_journal_hold_set(struct dist *d, const struct dist_job *job, uint32_t client);
/* Whether a client waits until the journal has its job. */
bool dist_jobs_journalling(const struct dist *d);
/* Whether something that was put out is not durable, or must be put out again. */
bool dist_journal_is_behind(const struct dist *d);
/* Whether such a client waits, or a launch: without being sent, a recorded launch would be a lost task. */
bool dist_journal_awaited(const struct dist *d);
void dist_journal_rewrite(struct dist *d); /* puts failed records out again, when it is time */
void dist_journal_free(struct dist *d);
void dist_on_journal_done(struct dist *d, const struct msg *m);

/* ---- numbers.c: job numbers (docs/protocol.md 11.8) ---- */
/* 0: the next number may be given out. HAWK_ENOT_REGISTERED: not yet; HAWK_EIO: the journal cannot be
 * written; HAWK_ELIMIT: all numbers were given out. */
int dist_numbers_error(const struct dist *d);
job_id_t dist_numbers_next(struct dist *d);
void dist_numbers_joined(struct dist *d);
void dist_numbers_leave(struct dist *d); /* no more numbers are given out */
void dist_on_journal_numbers(struct dist *d, const struct msg *in);

/* ---- recover.c: back from the journal ---- */
void dist_on_journal_job(struct dist *d, const struct msg *in);
void dist_on_journal_task(struct dist *d, const struct msg *in);
void dist_on_journal_cancel(struct dist *d, const struct msg *in);
void dist_on_journal_age(struct dist *d, const struct msg *in);
void dist_on_journal_ended(struct dist *d, const struct msg *in);
void dist_on_recovered(struct dist *d, const struct msg *m);
void dist_settle_begin(struct dist *d); /* joined: workers will say what they hold */
void dist_settle_look(struct dist *d);  /* settle_at has come */

/* Whether fewer of the job's tasks may be at workers at a time than it has (JobSpec.max_running). */
static inline bool dist_job_limited(const struct dist_job *job)
{
    return job->desc->max_running > 0 && job->desc->max_running < job->desc->tasks;
}
/* Waiting tasks that this dist is to launch now: no more than the job's limit leaves. */
static inline uint32_t dist_job_launchable(const struct dist_job *job)
{
    uint32_t at_workers = job->in[TASK_LAUNCHED] + job->in[TASK_RUNNING], left;

    if (!dist_job_limited(job))
        return job->unlaunched;
    left = at_workers < job->desc->max_running ? job->desc->max_running - at_workers : 0;
    return left < job->unlaunched ? left : job->unlaunched;
}
/* Whether central is to have the job's tasks, and this dist does not probe for them. Central takes jobs as they are,
 * so a dist launches itself what has a limit, by its own count. */
static inline bool dist_job_centrals(const struct dist_job *job)
{
    return job->class == CLASS_LONG && (job->policy_flags & POLICY_CENTRAL_LONG) && !dist_job_limited(job);
}
/* Whether it matters that the job's tasks outlive the cutoff (DESIGN 3.6). If it stays with its dist, it loses the
 * reserve; else it may be promoted. */
static inline bool dist_job_promotable(const struct dist_job *job)
{
    return !job->probe_long && (job->policy_flags & POLICY_PROMOTE);
}
/* A job that did not begin here, or not in this life, goes on under the present policy. That may be one that
 * never probes again (`central`). Lost reservations are made good all the same. */
static inline void dist_job_begun_before(struct dist_job *job)
{
    job->policy_flags |= POLICY_REPROBE | POLICY_CANCEL_PROBES;
}
static inline bool dist_job_starved(const struct dist_job *job) { return job->wait == WAIT_STARVED; }
static inline bool dist_job_settling(const struct dist_job *job) { return job->wait == WAIT_SETTLING; }
/* It is not probed for, and none of its tasks is launched. */
static inline bool dist_job_kept_back(const struct dist_job *job)
{
    return job->wait == WAIT_SETTLING || job->wait == WAIT_KEPT;
}
static inline uint32_t dist_job_unfinished_tasks(const struct dist_job *job)
{
#define X(name, text, phase) +((phase) == PHASE_FINAL ? 0 : job->in[name])
    return 0 TASK_STATES(X);
#undef X
}

/* ---- after.c: predecessors, and jobs that are held ---- */
/* The job is new or was read back: it waits for its predecessors from now on. */
void dist_after_link(struct dist *d, struct dist_job *job);
/* Task i of pred has ended; pred has ended; pred goes without an end. */
void dist_after_task(struct dist *d, struct dist_job *pred, uint32_t i);
void dist_after_ended(struct dist *d, struct dist_job *pred);
void dist_after_gone(struct dist *d, struct dist_job *pred);
/* The job has ended; it is about to be freed. */
void dist_after_close(struct dist_job *job);
void dist_after_free(struct dist_job *job);
/* Cancels the job or tasks of it, keeps it or starts it, as its predecessors and its user say. */
void dist_after_settle(struct dist *d, struct dist_job *job);
/* Whether nothing but workers keeps the job's tasks from starting. */
bool dist_job_may_start(const struct dist_job *job);
/* Hands the job over, if it is long, nothing of it has started, and all of it is here; returns whether. A job whose
 * tasks start one after the other is probed for, since central takes jobs as they are. */
bool dist_job_give_central(struct dist *d, struct dist_job *job);
/* No task of the job that has not started starts, until dist_after_settle() finds that it may. */
void dist_job_keep(struct dist *d, struct dist_job *job);
/* Whether it waits for tasks of predecessors. */
bool dist_task_blocked(const struct dist_task *t);
/* Task i, or all tasks, wait for them no longer. */
void dist_task_unblock(struct dist *d, struct dist_job *job, uint32_t i);
void dist_tasks_unblock(struct dist *d, struct dist_job *job);
/* Whether the job is held is on record, if it has one. */
void dist_hold_durable(struct dist *d, struct dist_job *job);
void dist_on_long_hold(struct dist *d, const struct msg *m);
void dist_on_hold(struct dist *d, const struct msg *m);
void dist_hold_answer(struct dist *d, job_id_t job, uint32_t client, int err);
void dist_on_journal_waits(struct dist *d, const struct msg *in);
/* Tasks that wait, and that this dist is to launch sooner or later. */
static inline uint32_t dist_job_waiting(const struct dist_job *job)
{
    return job->unlaunched + job->delayed_n + job->blocked_n;
}

/* ---- retries.c: tasks that failed and run again ---- */
/* A worker reports that a task failed. True: that is not its end; it runs again, or another try of it counts. */
bool dist_task_retry(struct dist *d, struct dist_job *job, const struct msg_task_finished *f);
/* How often task i failed and was to run again. */
uint32_t dist_task_failures(const struct dist_job *job, uint32_t i);
void dist_task_set_failures(struct dist_job *job, uint32_t i, uint32_t failures);
/* For a task that begins to wait. */
void dist_task_waits_for_nothing(struct dist_task *t);
/* Task i, if it is central's and waits: it waits for its time from now on, or no longer. */
void dist_task_centrals_delay(struct dist_job *job, uint32_t i, bool delayed);
/* Whether it waits for its time. */
bool dist_task_delayed(const struct dist_task *t);
/* Task i, or all that wait for their time, may be launched. */
void dist_task_undelay(struct dist *d, struct dist_job *job, uint32_t i);
void dist_tasks_undelay(struct dist *d, struct dist_job *job);
/* When the first task has waited for its time; TIME_NEVER: none does. */
int64_t dist_retries_due_us(const struct dist *d);
void dist_retries_run(struct dist *d);

/* ---- tasks.c: late binding and completions ---- */
/* Moves waiting task i from one list to another. */
void dist_task_move(struct dist_job *job, uint32_t *from, uint32_t *to, uint32_t i);
/* Moves task i to a state; place: where it is launched or running, NULL for other states. */
void dist_task_set_state(struct dist *d, struct dist_job *job, uint32_t i, enum task_state to,
                         struct dist_place *place);
/* Task i started `run_us` ago. */
void dist_task_started(struct dist *d, struct dist_job *job, uint32_t i, int64_t run_us);
void dist_task_end(struct dist *d, struct dist_job *job, uint32_t i, enum outcome outcome, int32_t code,
                   int64_t run_us, struct usage used);
/* The same, of a task that did not run, as far as is known. */
static inline void dist_task_end_unrun(struct dist *d, struct dist_job *job, uint32_t i, enum outcome outcome,
                                       int32_t code)
{
    dist_task_end(d, job, i, outcome, code, 0, (struct usage){0});
}
/* A task of the job has exited with 0, after run_us. */
static inline void dist_job_add_run_time(struct dist_job *job, int64_t run_us)
{
    job->ok_us += (uint64_t)run_us;
    job->ok_n++;
    if (run_us > job->longest_us)
        job->longest_us = run_us;
}
/* The task has ended, and used that. */
static inline void dist_task_note_used(struct dist_job *job, struct dist_task *t, struct usage used)
{
    t->used = used;
    usage_add(&job->total, used);
}

/* What it used; not known until it has ended. */
static inline struct usage dist_task_used(const struct dist_task *t)
{
    return task_state_final(t->state) ? t->used : (struct usage){0};
}
/* Task i's worker was lost: the task waits again, or ends if it has no retry left. */
void dist_task_return(struct dist *d, struct dist_job *job, uint32_t i);
struct try_id dist_task_try(const struct dist_job *job, uint32_t i);
/* Whether a task that has not ended may be tried again. Tries that did not run, that failed, or that an earlier life
 * launched before the one that was taken over, cost no retry. */
static inline bool dist_task_may_retry(const struct dist_job *job, const struct dist_task *t)
{
    uint32_t tries = t->attempt > t->free ? (uint32_t)(t->attempt - t->free) : 0;

    /* A launch counts as a start, unless the worker refused it: a dist hears of a start later, or never. */
    return owner_may_retry(job->desc, true, true, tries) && t->attempt < UINT16_MAX;
}
/* The try never ran: task i waits again, whatever the job's retries. */
void dist_task_refused(struct dist *d, struct dist_job *job, uint32_t i);
/* The job of this try, of which d->from reports. NULL: this dist schedules no such task, or never launched that
 * attempt, or not there. */
struct dist_job *dist_task_own_job(const struct dist *d, const struct try_id *id);
/* Whether launches are recorded before they are sent: an older version, which had no lives, recorded none. */
bool dist_task_launches_kept(const struct dist_job *job);
/* The launch of task i is on record, or (err) cannot be recorded: sends the task, or gives the launch up.
 * Ignores stale calls. */
void dist_task_launch_journalled(struct dist *d, const struct try_id *id, int err);
/* Tasks whose launch was not sent wait again, or are cancelled. */
void dist_tasks_unlaunch(struct dist *d, struct dist_job *job);
/* Sets the tasks of a new job to the states that its client knows. */
void dist_tasks_restore(struct dist *d, struct dist_job *job, const struct resubmit *r);
/* Tasks of a job that was moved here or read back may have been launched before. Those that must not run
 * twice end as lost. */
void dist_tasks_doubt(struct dist *d, struct dist_job *job);
/* A waiting task of this dist becomes central's. */
void dist_task_hand(struct dist_job *job, uint32_t i);
/* A waiting task of central's becomes this dist's. */
void dist_task_give_back(struct dist_job *job, uint32_t i);
/* Task i, if it was never launched, may be taken out of turn from now on. */
void dist_task_reach(struct dist_job *job, uint32_t i);
void dist_on_task_request(struct dist *d, const struct msg *m);
void dist_on_task_started(struct dist *d, const struct msg *m);
void dist_on_task_finished(struct dist *d, const struct msg *m);
void dist_on_task_held(struct dist *d, const struct msg *m);

/* ---- pauses.c ---- */
void dist_on_task_paused(struct dist *d, const struct msg *m);

/* ---- probe.c ---- */
/* Sends the first probes of a new job. */
void dist_probe_first(struct dist *d, struct dist_job *job);
/* A task of the job was launched at n: where every worker is to have a reservation of it, n gets the next one. */
void dist_probe_refill(struct dist *d, struct dist_job *job, struct dist_node *n);
/* Cancels or sends probes if there are too many or too few. */
void dist_probe_settle(struct dist *d, struct dist_job *job);
/* n drops all reservations of the job (NULL: it is not known), and messages about them may cross. Returns how many were
 * live. */
uint32_t dist_probe_drop(struct dist *d, struct dist_job *job, const struct dist_node *n);
/* Tells n to do so with those of the job `id`; job: NULL if it is not known. */
void dist_probe_take_back(struct dist *d, struct dist_job *job, const struct dist_node *n, job_id_t id);
/* Takes back every live reservation of the job. */
void dist_probe_cancel_all(struct dist *d, struct dist_job *job);
/* Puts the job into list l, the one for `wait`; WAIT_NOT: l is NULL. */
void dist_probe_wait(struct dist_job *job, enum probe_wait wait, struct list *l);
/* Removes the job from timers and lists of jobs that want probes. */
void dist_probe_forget(struct dist *d, struct dist_job *job);
/* From now on worker n can be drawn from pools[which]. */
void dist_probe_pool_grew(struct dist *d, struct dist_pool pools[POOL_COUNT], enum pool which,
                          struct dist_node *n);
/* Jobs that found no worker there look again, if they fit at n, which is in pools[which]. O(such jobs). */
void dist_probe_starved(struct dist *d, struct dist_pool pools[POOL_COUNT], enum pool which,
                        const struct dist_node *n);
/* A worker was lost, perhaps with the news that reservations had moved there. */
void dist_probe_doubt(struct dist *d);
void dist_probe_audit(struct dist *d);
bool dist_probe_general(const struct dist *d, const struct dist_job *job);
enum pool dist_probe_pool(const struct dist *d, const struct dist_job *job);
/* Jobs may draw from other pools than before. */
void dist_probe_pools_changed(struct dist *d);
/* The job draws from other workers from now on. */
void dist_probe_again(struct dist *d, struct dist_job *job);
/* The workers that may run the job's tasks. */
static inline struct dist_pool *dist_pools_of(struct dist *d, const struct dist_job *job)
{
    return job->app ? job->app->pool : job->served ? job->served->pool : d->pool;
}
/* The pool from which the job's probes are drawn. */
static inline struct dist_pool *dist_probe_pool_of(struct dist *d, const struct dist_job *job)
{
    return &dist_pools_of(d, job)[dist_probe_pool(d, job)];
}
void dist_on_probe_refused(struct dist *d, const struct msg *m);
void dist_on_probe_cancelled(struct dist *d, const struct msg *m);
void dist_on_res_moved(struct dist *d, const struct msg *m);

/* ---- apps.c: applications, and results of their tasks ---- */
void dist_pools_init(struct dist_pool pool[POOL_COUNT]);
void dist_pools_free(struct dist_pool pool[POOL_COUNT]);
void dist_job_join_app(struct dist *d, struct dist_job *job);
void dist_job_leave_app(struct dist *d, struct dist_job *job);
void dist_apps_free(struct dist *d); /* nodes and jobs must be gone */
bool dist_node_serves(const struct dist_node *n, const struct dist_app *a);
/* The node's slots in the pools of a, and of users' applications that a serves, may have changed. */
void dist_node_update_app(struct dist *d, struct dist_node *n, struct dist_app *a);
/* As far as the dist knows, the node serves nothing any more. */
void dist_node_forget_apps(struct dist *d, struct dist_node *n);
void dist_on_app(struct dist *d, const struct msg *in);
/* Memory of the job's description, messages and results. */
uint64_t dist_job_bytes(const struct dist_job *job);
/* Keeps the result of task i, which has not ended yet. False: it has no room, and a message says so. */
bool dist_task_keep_result(struct dist *d, struct dist_job *job, uint32_t i, struct blob *result);
void dist_job_free_results(struct dist_job *job);

/* ---- end_times.c: workers that have an end ---- */
/* Whether a task of the job would end there before the worker does, as far as its estimate is known. */
bool dist_end_times_fit(const struct dist *d, const struct dist_job *job, const struct dist_node *n);
/* Slots of the pool's workers where it would not. O(workers that have an end). */
uint32_t dist_end_times_short(const struct dist *d, const struct dist_job *job, const struct draw *pool);
void dist_end_times_forget(struct dist *d, struct dist_node *n);
/* Central will say again which workers have an end: what it does not repeat is forgotten later, by settle(). */
void dist_end_times_doubt(struct dist *d);
void dist_end_times_settle(struct dist *d);
void dist_on_ends(struct dist *d, const struct msg *in);

/* ---- served.c: workers that run one user's commands alone ---- */
void dist_job_join_user(struct dist *d, struct dist_job *job);
void dist_job_leave_user(struct dist *d, struct dist_job *job);
/* Follows what n->m says. If that has changed, update_pools() must follow: n may be in pools where it does not
 * belong. */
void dist_node_set_user(struct dist *d, struct dist_node *n);
/* Whether there are workers, and all of them run other users' commands alone. */
bool dist_nobody_serves(struct dist *d, const struct job_desc *desc);
void dist_served_free(struct dist *d);
void dist_served_check(const struct dist *d);

/* ---- nodes.c: nodes and their streams ---- */
/* Puts n into these pools with the weight that it has there, or 0. */
void dist_node_update(struct dist *d, struct dist_node *n, struct dist_pool pools[POOL_COUNT], bool in);
struct dist_node *dist_node_find(const struct dist *d, uint32_t id);
void dist_on_members(struct dist *d, const struct msg *in);
void dist_on_member(struct dist *d, const struct msg *in);
void dist_node_up(struct dist *d, uint32_t id, const struct msg_peer_up *m);
void dist_node_lost(struct dist *d, uint32_t id);
/* Forgets dists that the present central has not listed in time. O(nodes), once after a list that left dists out. */
void dist_nodes_settle(struct dist *d);
void dist_on_held_end(struct dist *d, const struct msg *m);
/* Asks the nodes from which something is awaited whether they are there, and gives up those that did not
 * answer. */
void dist_nodes_beat(struct dist *d);
void dist_on_beat(struct dist *d, const struct msg *m);
void dist_nodes_free(struct dist *d);

/* ---- handover.c: jobs that central has or is to get ---- */
/* Hands the job's waiting tasks to central, under `epoch`. */
void dist_hand_over(struct dist *d, struct dist_job *job, uint16_t epoch);
/* The same for a job that central must have already. */
void dist_handover_claim(struct dist *d, struct dist_job *job, uint16_t epoch);
/* The job's client asked other dists to take it, under epochs before this one, and stays here. Central must
 * obey this dist, not one that took the job without the client's knowledge. */
void dist_handover_stay(struct dist *d, struct dist_job *job, uint16_t epoch);
/* Asks central which of the job's waiting tasks it has under `epoch`; the others come back. */
void dist_handover_ask(struct dist *d, struct dist_job *job, uint16_t epoch);
/* The journal has this record of the job's hand-over. */
void dist_handover_journalled(struct dist *d, struct dist_job *job, uint64_t token);
/* Read back: central has, or may have, these tasks of the job under its epoch; NULL: all. */
void dist_handover_recover(struct dist *d, struct dist_job *job, const struct task_set *set);
/* Read back after that: the job has ended. */
void dist_handover_recover_ended(struct dist *d, struct dist_job *job);
/* Central's tasks that have not ended; NULL: all tasks of the job. */
struct task_set *dist_handover_tasks(const struct dist_job *job);
/* Offers the job to central: now, or when central can be reached. */
void dist_handover_offer(struct dist *d, struct dist_job *job);
/* Whether central can hold jobs: from version 3 of the protocol on. */
bool dist_handover_may_hold(const struct dist *d);
/* Tells central whether the job is held, if it may have something of it. */
void dist_handover_tell_hold(struct dist *d, struct dist_job *job);
/* Its TIMER_OFFER is due: offers the job again, unless no client watches it here. */
void dist_handover_offer_again(struct dist *d, struct dist_job *job);
/* Offers a job that waited for its first watch, or for its hold to be on record. Output: at most 2 messages. */
void dist_handover_offer_waiting(struct dist *d, struct dist_job *job);
/* Whether the job's tasks wait for central's word. */
static inline bool dist_handover_pending(const struct dist_job *job)
{
    return HANDS_PENDING >> job->hand & 1;
}
/* Whether central has nothing of the tasks that are to be its. */
static inline bool dist_handover_is_here(const struct dist_job *job)
{
    return job->hand == HAND_READY || job->hand == HAND_RECORDING || job->hand == HAND_HELD_BACK;
}
/* Whether central has something of the job, or may have. */
static inline bool dist_handover_may_have(const struct dist_job *job)
{
    return job->offers > 0 && job->central_n > 0;
}
/* Whether the table has this move. */
bool dist_handover_may_move(enum hand_over from, enum hand_over to);
void dist_handover_cancel(struct dist *d, struct dist_job *job);
/* Tells central, if it has the job, that these tasks are to end. */
void dist_handover_cancel_tasks(struct dist *d, struct dist_job *job, struct task_set *tasks);
void dist_handover_joined(struct dist *d);
void dist_handover_central_lost(struct dist *d);
/* The dist is about to leave: records what central was to get and did not get. */
void dist_handover_leave(struct dist *d);
void dist_on_long_accepted(struct dist *d, const struct msg *m);
void dist_on_long_refused(struct dist *d, const struct msg *m);
void dist_on_long_task(struct dist *d, const struct msg *m);
void dist_on_long_message(struct dist *d, const struct msg *m);
void dist_on_long_result(struct dist *d, const struct msg *m);
void dist_on_long_watched(struct dist *d, const struct msg *in);

/* ---- promote.c: jobs whose tasks outlive the cutoff ---- */
/* How long the job's tasks take, as those show that ran here: the mean of the run times of tasks that exited
 * 0 and of the ages of running tasks. 0: none has run. */
int64_t dist_job_shown_us(const struct dist *d, const struct dist_job *job);
/* If the job's tasks show at least the cutoff: promotes it, so that it is long, and central gets the tasks that were
 * not launched. At most once in an ownership; without central only if nothing is left to launch. A job that is tagged
 * short, or has max_running, loses the reserve instead. */
void dist_handover_promote(struct dist *d, struct dist_job *job);
/* It counts as long from now on: central has a part of it, or nothing is left to hand over. */
static inline void dist_job_set_promoted(struct dist_job *job)
{
    job->promoted = true;
    job->class = CLASS_LONG;
    job->why = WHY_PROMOTED;
}
/* The same, when that happens: it is counted. */
void dist_job_mark_promoted(struct dist *d, struct dist_job *job);
void dist_on_task_overrun(struct dist *d, const struct msg *m);

#endif
