/* What tasks returned: `hawk result` and `hawk submit --results`. */
#ifndef HAWK_CLI_RESULT_H
#define HAWK_CLI_RESULT_H

#include "cli/session.h"

#define RESULTS_MISSING_SHOWN 20u /* tasks without a result that are named one by one */

/* Results as they come in, for who is to print them when all are there: a dist that dies takes those of tasks that ended
 * there with it. They are in a file without a name; what that has no room for is asked for. */
struct kept_results;
struct kept_results *results_keep_new(void);
void results_keep(struct kept_results *k, job_id_t job, const struct api_task *t);
void results_keep_free(struct kept_results *k); /* NULL is fine */

/* Prints the results of all tasks of a job that has ended in order, a line each, and names those that have none on stderr; with
 * json: the tasks in a new array instead. What was not kept is asked for. HAWK_EXIT_OK when each has one; otherwise an exit code, after a
 * message. */
int results_print(struct session *s, const struct api_job *job, const struct kept_results *kept,
                  json_t **json);

#endif
