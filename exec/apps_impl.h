/* Inside apps: its state, and what apps.c (runs) and executors.c (who is attached, and whom it serves) have of each
 * other. */
#ifndef HAWK_EXEC_APPS_IMPL_H
#define HAWK_EXEC_APPS_IMPL_H

#include "base/heap.h"
#include "base/list.h"
#include "base/units.h"
#include "exec/apps.h"

#define APPS_BUCKETS 4096u /* hash table of runs by number; callers number them by slot, mostly */

/*   RUNS --apps_pause--> ASKED --apps_paused--> STILL
 *   Back to RUNS by apps_resume(), when it is to end or has ended; from ASKED also when the executor refuses,
 *   or does not answer in time. */
enum pause { PAUSE_RUNS, PAUSE_ASKED, PAUSE_STILL };

struct run {
    struct list link;
    struct run *chain; /* next in its bucket */
    /* Fires at its time limit, when its executor has not confirmed a pause in time, or at the end of its
     * grace; once over, at the end of its executor's grace. */
    struct heap_node timer;
    struct executor *at; /* NULL: it waits */
    struct app *app;
    struct job_desc *desc; /* NULL unless it waits */
    struct blob *arg;      /* NULL unless it waits */
    struct try_id try;
    int64_t started_us, limit_us; /* limit_us: its time limit is over, or TIME_NEVER; both without pauses */
    int64_t still_us;             /* STILL: since then */
    uint64_t id;
    uint64_t message; /* in which its executor gets it */
    uint32_t run;     /* the caller's number */
    uint8_t outcome;  /* how it must end; OUTCOME_NONE: by itself */
    uint8_t pause;    /* enum pause; RUNS once its outcome is decided */
    bool over;        /* its end is reported; only its executor's answer is missing */
};

struct app {
    struct list link; /* in apps.all */
    struct blob *name;
    struct blob *user;   /* whose tasks alone go there; NULL: everybody's */
    struct list ready;   /* executors with room */
    struct list waiting; /* runs */
    uint32_t attached;   /* executors that take tasks */
    uint32_t executors;  /* all executors */
};

struct executor {
    struct list ready; /* in app.ready while the executor has room */
    struct app *app;
    struct list runs;
    uint32_t slots;
    uint32_t busy; /* its runs that take a place: all that do not stand still; may be more than slots */
    uint32_t over; /* runs that are over; each still takes a place */
    /* Set while such runs take all places: the last of them. When its timer fires, the executor is stuck. */
    struct run *last;
    bool draining, pauses;
    void *user;
    char name[LIMIT_NAME_BYTES + 1];
};

struct apps {
    struct apps_fns fns;
    void *arg;
    int64_t kill_grace_us;
    struct list all; /* struct app */
    uint32_t apps_n, executors_n, runs_n;
    struct run **chunks;
    uint32_t chunks_n, chunks_cap;
    struct list unused; /* runs */
    struct run *buckets[APPS_BUCKETS];
    struct heap timers;
    uint64_t seq;
};

/* ---- apps.c ---- */

/* Reports the end of a run, once. Takes over the reference on `result`. */
void apps_report_end(struct apps *a, struct run *r, int64_t now_us, enum outcome outcome, int32_t code,
                     struct blob *result);
/* Frees the run. No executor has it any more. */
void apps_run_drop(struct apps *a, struct run *r);
/* The run is not paused any more, and takes a place. */
void apps_pause_count(struct run *r, int64_t now_us);
/* Gives runs that wait to executors with room. */
void apps_serve(struct apps *a, struct app *app, int64_t now_us);
/* Ends a waiting run as one that no executor got. */
void apps_lose_waiting(struct apps *a, struct run *r, int64_t now_us);

/* ---- executors.c ---- */

/* The application whose executors take the tasks of that job; NULL: there is none. */
struct app *apps_for(const struct apps *a, const struct job_desc *d);

#endif
