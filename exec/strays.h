/* Strays: descendants of tasks that left their task's process group and lost their parents. The spawner is
 * the subreaper, so it has become their parent.
 *
 * If a stray's environment still names its run, it is killed when that run has ended. If it wiped its
 * environment, only its start is known: it descends from a run that had started by then. When no such run is
 * left, it gets SIGTERM, and SIGKILL after the grace, with its descendants. */
#ifndef HAWK_EXEC_STRAYS_H
#define HAWK_EXEC_STRAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The longest life of a stray after its run's end, and the shortest time between two sweeps. */
#define STRAY_SWEEP_US INT64_C(100000)

struct stray;

/* Strays whose environment names no run. Starts zeroed. */
struct strays {
    struct stray *by_pid; /* a uthash table: these strays, and their descendants */
    int64_t kill_grace_us;
};

/* The running runs, as the spawner knows them. */
struct stray_runs {
    void *arg;
    bool (*is_leader)(void *arg, pid_t pid); /* pid leads a run's group: its own parent reaps it */
    bool (*is_running)(void *arg, uint64_t number);
    bool (*ran_at)(void *arg,
                   int64_t boot_us); /* a run that had started by then still runs (CLOCK_BOOTTIME) */
};

/* Ends the strays that are due at now_us (monotonic). Returns when to sweep again even if no run ends before;
 * TIME_NEVER: not at all. O(children), plus the descendants of those whose environment names no run. */
int64_t strays_sweep(struct strays *s, const struct stray_runs *runs, int64_t now_us);
void strays_free(struct strays *s);
/* The number of the run that pid descends from; 0: its environment does not tell. *ours: it is a run of the
 * spawner, not of one that a task of it started. Waits for up to 50 ms while pid is within execve(). */
uint64_t run_number_of(pid_t pid, pid_t spawner, bool *ours);
/* Kills the descendants of all runs of a spawner that is dead, as far as their environment names it. For the
 * agent: it does not know the last runs, whose start the spawner did not report any more, nor what left its
 * group. O(processes of this machine). */
void strays_end_of(pid_t spawner);
/* The same for all spawners of that worker that live no more, as far as this process may kill what they left: for a
 * user's runner, whose predecessor may have been killed together with its keeper. What a living spawner runs, whoever
 * names it, is left alone. */
void strays_end_orphans(const char *worker);
/* Kills all children, and their children as they become ours, until none is left; gives up at deadline_us
 * (monotonic). */
void strays_end_all(int64_t deadline_us);

#endif
