/* In the agent: which runs it gave to a user's runner, on disk. The user can imitate his runner: an agent that takes it
 * over believes it the ends of these runs, and nothing of any other. */
#ifndef HAWK_EXEC_HELD_RUNS_H
#define HAWK_EXEC_HELD_RUNS_H

#include "base/err.h"
#include "msg/msg.h"

#include <uthash.h>

/* As it lies in the file. */
struct held_run {
    uint32_t run;
    uint32_t flags; /* enum run_flag */
    uint64_t job;
    int64_t time_limit_us;
    uint32_t task, owner;
    uint16_t epoch, attempt;
    uint16_t files;     /* enum run_file: what the agent opened for it */
    uint16_t forgotten; /* the run of this number is nobody's any more */
};

/* files: enum run_file. */
struct held_run held_run_of(const struct msg_exec_start *m, uint32_t files);

struct try_id held_run_try(const struct held_run *r);

struct held_runs {
    int fd;
    struct held_entry *by_run;
    uint64_t size; /* of the file */
};

/* Opens the file in dir_fd, and reads what it says. HAWK_EIO: errno tells why. */
HAWK_MUST_USE int held_runs_open(struct held_runs *h, int dir_fd);
void held_runs_close(struct held_runs *h);
/* Notes a run before the runner gets it. HAWK_EIO. */
HAWK_MUST_USE int held_runs_add(struct held_runs *h, const struct held_run *r);
/* Nobody will ask for that run again. */
void held_runs_forget(struct held_runs *h, uint32_t run);
/* Nobody will ask for any of them again. */
void held_runs_clear(struct held_runs *h);
/* NULL: it is none of these. */
const struct held_run *held_runs_find(const struct held_runs *h, uint32_t run);
/* The same, and once only for each. */
const struct held_run *held_runs_claim(struct held_runs *h, uint32_t run);
uint32_t held_runs_count(const struct held_runs *h);

#endif
