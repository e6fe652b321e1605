/* Long tasks that wait for a worker, and whose turn it is (docs/protocol.md 4.3). A job's tasks wait in the
 * order in which they came to wait. Jobs take turns by a key, the least one first:
 *
 *   key  = time at which central got the job + central.long_stretch * size
 *   size = number of its tasks * run time of a task / slots of the cluster   (0 without POLICY_LONG_BY_WORK)
 *
 * Users take turns before that: with each task of a job, that job's user goes behind all others (base/turns.h). The key
 * decides between jobs of one user, as it does between all jobs where there is one user.
 *
 * So only its user's jobs that came less than long_stretch * (its size - their size) after a job overtake it, and none
 * overtakes it that came later than long_stretch * its size. Within this bound the smallest job goes first.
 *
 * The size is the time for which the whole job would fill the cluster, by its estimate, and not what remains of
 * it. An order by what remains of an estimate has no bounded ratio to the optimum when estimates err; the order
 * by the original estimate has one (Scully, Grosof, Harchol-Balter 2021). A task past its estimate is large,
 * never nearly done: if the job's tasks together show more than the estimate, that counts instead. */
#ifndef HAWK_CENTRAL_KEPT_H
#define HAWK_CENTRAL_KEPT_H

#include "base/heap.h"
#include "base/turns.h"

struct central;
struct long_job;
struct long_task;

/* A user's long jobs. */
struct kept_user {
    struct list link; /* in kept.users */
    struct turn turn; /* in kept.turns while tasks of these jobs wait */
    struct heap heap; /* long_job.turn: jobs with tasks that wait */
    uint32_t number;  /* job_desc_user() */
    uint32_t jobs;    /* in the table of jobs */
    uint32_t unfinished;
    uint64_t tasks; /* of the unfinished ones */
    /* Of the jobs of which the step of that number placed tasks, the last one by its key. */
    uint64_t served_step;
    int64_t served_key, served_since_us, served_size_us;
    /* What end_times_last_own() found for these jobs after end_times.changes of that number. */
    uint64_t last_own_at;
    int64_t last_own_us;
};

/* Jobs with tasks that wait for any worker, or for one that serves an application; and all users who have jobs. */
struct kept {
    struct list users;
    struct turns turns;
};

void kept_init(struct kept *k);
void kept_free(struct kept *k);
/* j is in the table of jobs; it is not any more. O(users who have jobs). */
void kept_enter(struct central *c, struct long_job *j);
void kept_leave(struct long_job *j);
void kept_finish(struct long_job *j); /* j, which was accepted, has ended, and stays in the table */
/* Whether the table of jobs has room for one more job of that user: of the unfinished jobs and tasks that it may have,
 * a user gets at most as many as are left for others. So no user fills it, and whoever has none finds room. The first
 * job, and those of nobody (0), only have to fit. O(users who have jobs, applications). */
bool kept_may_enter(const struct central *c, uint32_t user, uint32_t tasks);
/* Aborts unless users' counts of unfinished jobs and tasks are right. */
void kept_check_unfinished(const struct central *c);

/* t begins to wait; it ceases to wait. O(log jobs whose tasks wait). */
void kept_add(struct central *c, struct long_task *t);
void kept_remove(struct central *c, struct long_task *t);
/* The task whose turn it is, or NULL when none waits. */
struct long_task *kept_first(const struct kept *k);
/* The same among the tasks of one user. */
struct long_task *kept_first_of(const struct kept_user *u);
/* Takes the turn from j, whose tasks wait, until it is readmitted. kept_add() admits j by itself. */
void kept_pass_over(struct long_job *j);
void kept_readmit(struct central *c, struct long_job *j);
/* Takes j's turn, or gives it one, as j->held, j->unheard and j->apart say. */
void kept_update_turn(struct central *c, struct long_job *j);
/* Takes it, until j is in c->end_times.apart no more. */
void kept_set_apart(struct central *c, struct long_job *j);
/* Computes j's size again, because its tasks have shown more; that of all jobs, because the policy has changed. */
void kept_resize(struct central *c, struct long_job *j);
void kept_resize_all(struct central *c);
/* Computes all sizes again if the cluster has more than twice, or less than half, of the slots that they count. */
void kept_follow(struct central *c);

/* A step begins: no job's turn has come in it yet. */
void kept_serve_none(struct central *c);
/* A task of j, whose turn it is, goes to a worker. */
void kept_serve(struct central *c, const struct long_job *j);
/* Aborts unless k is in order, no user has let another one go first twice and, in this step, no job was overtaken
 * beyond the bound. Returns how many jobs have tasks that wait. */
uint32_t kept_check(const struct central *c, const struct kept *k);

#endif
