/* The changed tasks of a job, in the order of the changes, and how far each of its watches has read them. An event
 * costs O(1), however many watch. A watch that lags hears of a task once, in the place of its last change. */
#ifndef HAWK_API_WATCH_LOG_H
#define HAWK_API_WATCH_LOG_H

#include "base/list.h"

#define WATCH_LOG_NONE UINT32_MAX /* no task */
#define WATCH_LOG_SPARE 1024u     /* entries beyond two for each task */
#define WATCH_LOG_TASK_BYTES 12u  /* what a log has for each task, at most */

/*  at[t] = 0                     no entry is of task t
 *  entry[at[t] - 1] = t          otherwise: its last one; entries of t before it say nothing
 *  n ≤ 2 tasks_n + SPARE         and ≤ tasks_n after those before the last ones were dropped */
struct watch_log {
    uint32_t tasks_n;
    uint32_t *at, *entry; /* NULL before the first change */
    uint32_t n, cap;
    struct list readers;
};

/* What comes next for a reader: first each task of the job as it is, then the changes since it began. */
struct watch_place {
    uint32_t scanned; /* the next task of the job; tasks_n: there are only changes to read */
    uint32_t read;    /* the next entry */
};

struct watch_reader {
    struct list in_log;
    struct watch_place place;
};

void watch_log_init(struct watch_log *l, uint32_t tasks_n);
/* From now on r, which is the caller's, may read l. */
void watch_log_join(struct watch_log *l, struct watch_reader *r);
/* r reads l no more. When nobody does, l is empty and has no memory. Safe if r never joined, but was zeroed. */
void watch_log_leave(struct watch_log *l, struct watch_reader *r);
/* A task has changed. Nothing happens while nobody reads, or if the job has no such task. */
void watch_log_add(struct watch_log *l, uint32_t task);
/* Goes one step on. False: all is read. *task: the task that is to be looked at; WATCH_LOG_NONE: none in this step,
 * since it comes later. *p may be a copy of a reader's place, until the next watch_log_add. */
bool watch_log_next(const struct watch_log *l, struct watch_place *p, uint32_t *task);

#endif
