/* The predecessors of a job: jobs that must end, each as its condition says, before the job starts (docs/protocol.md
 * 14). */
#ifndef HAWK_MSG_AFTER_H
#define HAWK_MSG_AFTER_H

#include "base/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMIT_AFTER 32u /* predecessors of one job */

/* How a predecessor must end. X(constant, text) */
#define AFTER_WHENS(X)                                                                                       \
    X(AFTER_OK, "ok")         /* all its tasks exited with 0 */                                              \
    X(AFTER_ANY, "any")       /* in whatever way */                                                          \
    X(AFTER_FAILED, "failed") /* a task of it failed or was lost, and nobody cancelled it */
enum after_when {
#define X(name, text) name,
    AFTER_WHENS(X)
#undef X
        AFTER_WHEN_COUNT
};
const char *after_when_text(enum after_when v);

struct after {
    job_id_t job;
    uint8_t when; /* enum after_when */
};

/*   n <= LIMIT_AFTER. Only while a peer's or client's description is read: n may be one more, and what is no
 *   predecessor has the id JOB_NONE (after_check) */
struct after_list {
    struct after *v;
    uint32_t n;
};

#define AFTER_TEXT (JOB_ID_TEXT + 8) /* bytes that hold a predecessor's text */
/* Writes "3.12" or "3.12:any" to buf (AFTER_TEXT bytes) and returns buf. */
const char *after_format(char *buf, const struct after *a);
/* Reads such a text of len bytes; "3.12:ok" is "3.12". False: it is none. */
bool after_parse(const char *text, size_t len, struct after *a);
/* Appends the predecessor in a text of len bytes. */
void after_add(struct after_list *l, const char *text, size_t len);
void after_copy(struct after_list *to, const struct after_list *from);
void after_free(struct after_list *l);
/* 0; or an error, and why (size bytes) says what is wrong. */
int after_check(const struct after_list *l, char *why, size_t size);

#endif
