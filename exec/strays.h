/* Descendants of tasks that left their task's process group and lost their parents: the spawner, as the
 * subreaper, has become the parent of these.
 *
 * One whose environment still says which run it is of is killed when that run has ended. Of one that wiped its
 * environment it is known only when it began: it descends from a run that had started by then, and is ended (SIGTERM,
 * and SIGKILL after the grace, with its descendants) once no such run is left. */
#ifndef HAWK_EXEC_STRAYS_H
#define HAWK_EXEC_STRAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How long after a run's end its strays live at most (and how often, at most, they are looked for). */
#define STRAY_SWEEP_US INT64_C(100000)

struct stray;

/* What is known of strays that do not say whose they are. Starts zeroed. */
struct strays {
    struct stray *by_pid; /* uthash: they, and their descendants */
    int64_t kill_grace_us;
};

/* What runs, as the spawner knows it. */
struct stray_runs {
    void *arg;
    bool (*is_leader)(void *arg, pid_t pid); /* of a run's group, and its own parent's to reap */
    bool (*is_running)(void *arg, uint64_t number);
    bool (*ran_at)(void *arg,
                   int64_t boot_us); /* a run that had started by then still runs (CLOCK_BOOTTIME) */
};

/* Ends what is to be ended by now_us (monotonic). Returns when to look again though no run ends before;
 * TIME_NEVER: not at all. O(children), and the descendants of those that do not say whose they are. */
int64_t strays_sweep(struct strays *s, const struct stray_runs *runs, int64_t now_us);
void strays_free(struct strays *s);
/* The number of the run that pid descends from, or 0 when its environment does not tell. *ours: the run is one of this
 * spawner's, not of a spawner that a task of ours had. */
uint64_t run_number_of(pid_t pid, bool *ours);
/* Kills every child there is, and their children as they turn up here, until none is left; gives up at
 * deadline_us (monotonic). */
void strays_end_all(int64_t deadline_us);

#endif
