/* Descendants of tasks that left their task's process group and lost their parents: the spawner, as the
 * subreaper, has become the parent of these. */
#ifndef HAWK_EXEC_STRAYS_H
#define HAWK_EXEC_STRAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How long after a run's end its strays live at most (and how often, at most, they are looked for). */
#define STRAY_SWEEP_US INT64_C(100000)

/* Kills every child that `is_leader` does not know, and whose run `is_running` says has ended. Children
 * that do not say which run they are of (their environment was wiped) are let be. */
void strays_sweep(bool (*is_leader)(void *arg, pid_t pid), bool (*is_running)(void *arg, uint64_t number),
                  void *arg);
/* Kills every child there is, and their children as they turn up here, until none is left; gives up at
 * deadline_us (monotonic). */
void strays_end_all(int64_t deadline_us);

#endif
