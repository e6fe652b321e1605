/* Which jobs a command is about: ids, ranges, `last` and `all`. */
#ifndef HAWK_LIBHAWK_SELECT_H
#define HAWK_LIBHAWK_SELECT_H

#include "base/ids.h"
#include "libhawk/client.h"

#include <stdbool.h>
#include <stdint.h>

#define SELECT_JOBS_MAX 1000000u /* jobs that one command may name */

struct selection {
    job_id_t *jobs; /* in the order given, each once */
    uint32_t n, cap;
    bool last, all;
};

#define SELECT_LAST "last" /* the user's newest job */
#define SELECT_NONE                                                                                          \
    "none" /* no job: what `hawk submit` prints for a list without inputs, so that scripts go on */

/* Reads "3.17", "3.17-3.20", "3.17-20", "last", "all", "none" and comma-separated lists of them into *s (zeroed by
 * the caller). HAWK_EINVALID, or HAWK_ETOO_LARGE, and a text in why (size bytes) that names the bad part. */
HAWK_MUST_USE int selection_parse(struct selection *s, int argc, char *const *argv, char *why, size_t size);
/* Replaces `last` by the user's newest job and `all` by those not ended. HAWK_ENOT_FOUND when the user has
 * none (for `all`: an empty selection and 0); others as client_list_jobs. client_error() tells. */
HAWK_MUST_USE int selection_resolve(struct selection *s, struct client *client, const char *user);
void selection_free(struct selection *s);

#endif
