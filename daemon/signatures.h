/* A worker that requires signatures runs what users have signed, and reads it from what they signed
 * (net/submission.h). A job is opened once; its tasks are then looked up. */
#ifndef HAWK_DAEMON_SIGNATURES_H
#define HAWK_DAEMON_SIGNATURES_H

#include "msg/msg.h"
#include "net/tls.h"

#include <stdbool.h>

struct signatures;

/* tls is borrowed, with the roots in it. state_dir holds the nonces. any_user: commands run as the worker's
 * user, whoever's they are. The uid of a job's user on this machine must else be the one of his credential. HAWK_EIO:
 * the log says what is wrong. */
HAWK_MUST_USE int signatures_open(struct signatures **out, const struct tls *tls, const char *state_dir,
                                  bool any_user);
/* proof: that of the task's argument; NULL: there is none. *desc: the job as its user signed it, with the signature,
 * borrowed until the next call. HAWK_EDENIED: this task is not what he signed. HAWK_ECANNOT_START: this worker cannot
 * note the nonce, or look the user up, and another one can run the task. Of both, why (EXEC_WHY_MAX bytes) says
 * more. */
HAWK_MUST_USE int signatures_admit(struct signatures *s, const struct msg_exec_start *m,
                                   const struct blob *proof, struct job_desc **desc, char *why);
/* Whether nonces can be noted. False: why (EXEC_WHY_MAX bytes) says what is wrong. */
bool signatures_work(struct signatures *s, char *why);
void signatures_free(struct signatures *s); /* NULL is fine */

#endif
