/* In the spawner: runs that stand still, or are about to. */
#ifndef HAWK_EXEC_PAUSES_H
#define HAWK_EXEC_PAUSES_H

#include "exec/runs.h"

void pauses_take(struct spawner *s, struct record *rec);        /* RECORD_PAUSE */
void pauses_take_resume(struct spawner *s, struct record *rec); /* RECORD_RESUME */
/* r goes on, if it was paused. One whose freeze was still to be confirmed is answered for with HAWK_EBUSY. */
void pause_end(struct spawner *s, struct run *r);
void pauses_end_all(struct spawner *s);
/* Answers for those that stand still by now; undoes what took too long. Returns when to look again, or TIME_NEVER. */
int64_t pauses_look(struct spawner *s);
/* The watcher has died. */
void pauses_unwatched(struct spawner *s);

#endif
