/* What tasks returned: `hawk result` and `hawk submit --results`. */
#ifndef HAWK_CLIENT_RESULT_H
#define HAWK_CLIENT_RESULT_H

#include "client/session.h"

#define RESULTS_MISSING_SHOWN 20u /* tasks without a result that are named one by one */

/* Prints the results of all tasks in order, a line each, and names those that have none on stderr; with json: the tasks in
 * a new array instead. HAWK_EXIT_OK when each has one; otherwise an exit code, after a message. */
int results_print(struct session *s, job_id_t job, json_t **json);

#endif
