/* The results of tasks: `hawk result` and `hawk submit --results`. */
#ifndef HAWK_CLI_RESULT_H
#define HAWK_CLI_RESULT_H

#include "cli/session.h"

#define RESULTS_MISSING_SHOWN 20u /* tasks without a result; the first ones are named one by one */

/* Keeps results as they come, to print them when all are there: a dist that dies loses those of tasks that
 * ended there. They are in a file without a name. A result for which that has no room is asked for again. */
struct kept_results;
struct kept_results *results_keep_new(void);
void results_keep(struct kept_results *k, job_id_t job, const struct api_task *t);
void results_keep_free(struct kept_results *k); /* NULL is fine */

/* Prints the results of all tasks of an ended job in order, a line each, and names tasks without a result
 * on stderr. With json it puts the tasks into a new array instead. It asks for results that were not kept.
 * HAWK_EXIT_OK when each task has one; otherwise an exit code, after a message. */
int results_print(struct session *s, const struct api_job *job, const struct kept_results *kept,
                  json_t **json);

#endif
