/* In the spawner: paused runs, and runs that are being frozen. */
#ifndef HAWK_EXEC_PAUSES_H
#define HAWK_EXEC_PAUSES_H

#include "exec/runs.h"

void pauses_take(struct spawner *s, struct record *rec);        /* RECORD_PAUSE arrived */
void pauses_take_resume(struct spawner *s, struct record *rec); /* RECORD_RESUME arrived */
/* Lets r go on if it was paused. If its freeze was not confirmed yet, the answer is HAWK_EBUSY. */
void pause_end(struct spawner *s, struct run *r);
void pauses_end_all(struct spawner *s);
/* Answers for runs that stand still by now, and undoes freezes that took too long. Returns when to call it
 * again, or TIME_NEVER. */
int64_t pauses_look(struct spawner *s);
/* Agents freeze the tasks of users, too, and the watcher thaws these if this process dies as well. */
void pauses_begin(struct spawner *s);
/* The watcher has died. */
void pauses_unwatched(struct spawner *s);

#endif
