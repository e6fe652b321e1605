/* Long tasks at central: each is in one place (enum task_place), and workers and dists are told. */
#ifndef HAWK_CENTRAL_TASKS_H
#define HAWK_CENTRAL_TASKS_H

#include "central/state.h"

/* ---- tasks.c: placed, started, finished, lost ---- */
/* The task's place in long_job.tasks. */
static inline uint32_t central_task_index(const struct long_task *t) { return (uint32_t)(t - t->job->tasks); }
void central_task_set_state(struct central *c, struct long_task *t, enum task_state state);
struct try_id central_task_try(const struct long_task *t);
struct usage central_task_used(const struct long_task *t); /* not known until it has ended */
/* Removes t from its place. */
void central_task_forget(struct central *c, struct long_task *t);
/* Its worker says how long it has run, and whether it stands still from now on. */
void central_task_ran(struct central *c, struct long_task *t, int64_t run_us, bool stands);
/* Moves t to the queue of tasks that wait for a worker. */
void central_task_queue(struct central *c, struct long_task *t);
/* Moves t to limbo: at due_us its try counts as lost, and it is placed again or ends, unless a worker turns out to
 * have it. */
void central_task_limbo(struct central *c, struct long_task *t, int64_t due_us);
/* Cancels t: at once, or when its worker has answered. */
void central_task_cancel(struct central *c, struct long_task *t);
/* t, which no worker has, waits for its time. */
void central_task_delay(struct central *c, struct long_task *t, int64_t until_us);
/* The worker that had t lost it: t is tried again, or ends. */
void central_task_lost(struct central *c, struct long_task *t);
/* No worker reports the end of t. */
void central_task_end_unreported(struct central *c, struct long_task *t, enum outcome outcome, int32_t code);
/* Whether t is in limbo and nothing shows that it ever started. If a worker that is cut off has it, that worker ends
 * it at the end of its lease, or is told to when it is back. */
bool central_task_nowhere(const struct long_task *t);
/* Whether a worker that can be reached may still report a task in limbo. */
bool central_reports_due(const struct central *c);
/* Sends the task's state to all watchers; to a dist. */
void central_task_tell(struct central *c, const struct long_task *t);
void central_task_send(struct central *c, const struct long_task *t, const struct node *dist);
void central_ack_journalled_completion(struct central *c, struct long_task *t);
/* The task whose launch under this id waits for its record; NULL: it does not wait any more. */
struct long_task *central_task_unsent(const struct central *c, const struct try_id *id);
/* The launch of an at-most-once task is recorded: it may be sent now. */
void central_task_launch_journalled(struct central *c, const struct try_id *id);
void central_on_task_started(struct central *c, const struct msg *in);
void central_on_task_finished(struct central *c, const struct msg *in);
void central_on_task_returned(struct central *c, const struct msg *in);
void central_on_task_held(struct central *c, const struct msg *in);
void central_on_held_end(struct central *c, const struct msg *in);
void central_task_place(struct central *c, struct long_task *t, struct node *n); /* t waits */

/* ---- away.c: tasks whose workers are away or gone, and tasks that wait for a time ---- */
/* The worker is gone: its tasks are lost. central_tasks_worker_replaced(): another process took its name, and
 * its tasks are lost at due_us. */
void central_tasks_worker_gone(struct central *c, struct node *n);
void central_tasks_worker_replaced(struct central *c, struct node *n, int64_t due_us);
/* Whether workers that the journal names are not back, and may run tasks. Of an earlier central's tasks, one that has
 * been away for a lease runs none. */
bool central_workers_away(const struct central *c);
/* Whether the journal is read, and every worker that is known and may hold something is up and has said what. */
bool central_workers_all_back(const struct central *c);
/* A worker has reported what it holds. If it was the last of all workers that central knows by name, tasks that
 * nobody reported are nowhere, and are placed again. O(nodes, tasks in limbo). */
void central_tasks_place_unreported(struct central *c);
/* Ends cancelled tasks that no worker has, when all workers that can be reached have reported. */
void central_tasks_end_unwanted(struct central *c);
int64_t central_tasks_due_us(const struct central *c);
void central_tasks_run(struct central *c);

#endif
