/* A spawner from outside: its end by force, the end of what it ran, and the note by which the next agent finds it. */
#ifndef HAWK_EXEC_SPAWNER_END_H
#define HAWK_EXEC_SPAWNER_END_H

#include "base/err.h"

#include <sys/types.h>

/* Kills a spawner that stands still, and says so in the log. Its tasks: spawner_end_runs(), once it is dead. */
void spawner_kill(pid_t spawner);
/* Ends whatever a spawner ran that is dead. O(processes of this machine). */
void spawner_end_runs(pid_t spawner);

/* Notes in state_dir who the spawner is. If that fails, the log has a warning. */
void spawner_note(const char *state_dir, pid_t spawner);
/* spawner_end_runs() of the one that is noted, if it is dead: it was killed, and its agent, too, so that nobody has
 * watched its tasks since, nor their lease. */
void spawner_end_noted_runs(const char *state_dir);
/* spawner_kill() of the one that is noted. HAWK_EIO: the note names none that lives, and the log says so. */
HAWK_MUST_USE int spawner_kill_noted(const char *state_dir);

#endif
