/* In a user's runner that root's configuration gave the user root (runas/run_as.h): what reads a job as its user signed
 * it. Such a runner runs nothing on the agent's word. daemon/signed_spec.h has the only one: other spawners are linked
 * without. */
#ifndef HAWK_EXEC_SIGNED_SPEC_H
#define HAWK_EXEC_SIGNED_SPEC_H

#include "msg/types.h"

#include <stdbool.h>

#define SIGNED_SPEC_WHY 400 /* room for any text about what is wrong */

/* A job that is opened once; its tasks are then looked up. */
struct signed_spec {
    struct job_desc *d; /* as its user signed it */
};

struct signed_reader {
    /* signature: a message Signed; NULL: the job has none. NULL: it is no command that this process's user signed, and
     * why says more. A user who cannot be looked up now may be this process's. */
    struct signed_spec *(*open)(const struct signed_reader *r, const struct blob *signature,
                                char why[SIGNED_SPEC_WHY]);
    void (*close)(struct signed_spec *s);
    /* Whether he asked for this task with this argument, and that still holds. 0; HAWK_EDENIED: it is not so;
     * HAWK_ECANNOT_START: he cannot be looked up now. why says more. */
    int (*has)(struct signed_spec *s, uint32_t task, const struct blob *arg, const struct blob *proof,
               char why[SIGNED_SPEC_WHY]);
};

#endif
