/* The jobs in whose tasks a job was submitted, nearest first. No task of theirs is paused for it
 * (docs/protocol.md 4.5): whoever waits for a job would stand still for it. */
#ifndef HAWK_MSG_ANCESTORS_H
#define HAWK_MSG_ANCESTORS_H

#include "base/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMIT_ANCESTORS 8u /* the nearest ones; those before are forgotten */

/*   v[0 .. n-1]: the nearest first. Only while a peer's or client's description is read: n may be one more than the
 *   limit, and an id that is none is JOB_NONE (ancestors_check) */
struct ancestors {
    uint32_t n;
    job_id_t v[LIMIT_ANCESTORS];
};

#define ANCESTORS_TEXT (LIMIT_ANCESTORS * JOB_ID_TEXT) /* bytes that hold the text of all */
/* Writes the ids, with spaces between them, to buf (ANCESTORS_TEXT bytes) and returns buf. */
const char *ancestors_format(char *buf, const struct ancestors *a);
/* Appends the id in a text of len bytes. */
void ancestors_add(struct ancestors *a, const char *text, size_t len);
/* Appends the ids in a text of ancestors_format() up to the limit. NULL, and what is no id, is nothing. */
void ancestors_add_text(struct ancestors *a, const char *text);
/* 0; or an error, and why (size bytes) says what is wrong. */
int ancestors_check(const struct ancestors *a, char *why, size_t size);
bool ancestors_have(const struct ancestors *a, job_id_t job);
/* A set of jobs in 64 bits. It may say that it has one that it has not, never the reverse. */
static inline uint64_t job_set(job_id_t job) { return UINT64_C(1) << ((job.v ^ job.v >> 40) & 63); }
uint64_t ancestors_set(const struct ancestors *a);

#endif
