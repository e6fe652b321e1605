/* Failures in the same words, said in one line however many tasks they are of. */
#ifndef HAWK_CLI_FAILURES_H
#define HAWK_CLI_FAILURES_H

#include "cli/show.h"

#define FAILURE_KINDS_MAX 100u /* different words; what fails in still others is only counted */
#define FAILURE_TASKS_NAMED 5u /* of those merged */

struct failure_kind {
    uint32_t n; /* tasks merged */
    uint32_t apart;
    uint32_t tasks[FAILURE_TASKS_NAMED]; /* the first of them, as their user numbers them */
    char text[TASK_ENDING_MAX];          /* how they ended */
    char *worker;                        /* where all of them were; NULL: at several */
};

/* Zeroed to start with. */
struct failures {
    struct failure_kind *v;
    uint32_t n, cap;
    uint32_t others; /* tasks of further kinds */
};

/* How many in the same words a list of tasks shows one by one: one when no process ran, which has nothing of its own. */
uint32_t failures_apart(const struct api_task *t);
/* Whether the task, which ended in these words, is one of the first `apart` to end so, to be shown by itself. Otherwise it
 * is merged. */
bool failures_add(struct failures *f, const struct api_task *t, uint32_t index, const char *text,
                  uint32_t apart);
/* A line per kind that has merged tasks, at most `lines`, each after `before`; those that are left only counted. */
void failures_print(const struct failures *f, FILE *to, const char *before, uint32_t lines);
void failures_free(struct failures *f);

#endif
