/* In the spawner: residents, the processes of tasks that became executors (exec_reside() in exec.h). */
#ifndef HAWK_EXEC_RESIDENTS_H
#define HAWK_EXEC_RESIDENTS_H

#include "exec/runs.h"

void residents_take(struct spawner *s, struct record *rec);       /* RECORD_RESIDE arrived */
void residents_take_evict(struct spawner *s, struct record *rec); /* RECORD_EVICT arrived */
/* Sends SIGTERM to all residents, and SIGKILL after the grace. */
void residents_end_all(struct spawner *s);
/* The leader of x has ended, and was reaped; the rest of its group was killed. Frees x. */
void resident_ended(struct spawner *s, struct run *x);
/* Whether a resident has that number in RUN_VARIABLE. */
bool resident_has(const struct spawner *s, uint64_t number);

#endif
