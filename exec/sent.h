/* In the agent: the descriptions of jobs that a spawner has. Each goes over the socket once for all runs of the job. */
#ifndef HAWK_EXEC_SENT_H
#define HAWK_EXEC_SENT_H

#include "base/list.h"
#include "exec/record.h"
#include "msg/msg.h"

#include <uthash.h>

struct sent_spec {
    UT_hash_handle hh;
    struct list idle;   /* in sent.idle while no run uses it; the oldest comes first */
    struct job_desc *d; /* the key; our reference keeps its address from being reused */
    uint32_t id;
    uint32_t runs;
};

struct sent {
    struct sent_spec *specs;
    struct list idle;
    uint32_t idle_n, next_spec;
    bool to_user; /* to a user's runner, which may ask what its user signed */
};

void sent_init(struct sent *s);
/* Forgets all descriptions. Afterwards nothing may refer to one. */
void sent_free(struct sent *t);
/* Writes RECORD_RUN, and RECORD_SPEC before it if need be. worker: as in exec_run(). To a user's runner, files: enum
 * run_file, which descriptors go with it; proof: that of the task's argument. Returns the description that the run
 * uses. HAWK_EINVALID, HAWK_ELIMIT: as exec_run(). */
HAWK_MUST_USE int sent_run(struct sent *t, struct bytes *out, const struct msg_exec_start *m,
                           const char *worker, uint32_t files, const struct blob *proof,
                           struct sent_spec **used);
/* A run does not use it any more. out NULL: the spawner is gone. */
void sent_release(struct sent *t, struct bytes *out, struct sent_spec *s);
/* The flags of the run in its record (enum run_flag). */
uint32_t sent_flags(const struct msg_exec_start *m);

/* Writes a record with nothing but a number. */
void put_number(struct bytes *out, enum record_type type, uint32_t number);
void put_kill(struct bytes *out, uint32_t run, enum outcome outcome, bool force);

#endif
