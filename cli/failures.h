/* Merges failures in the same words into one line, however many tasks have them. */
#ifndef HAWK_CLI_FAILURES_H
#define HAWK_CLI_FAILURES_H

#include "cli/show.h"

#define FAILURE_KINDS_MAX 100u /* kinds; failures of further kinds are only counted */
#define FAILURE_TASKS_NAMED 5u /* of those merged */
#define FAILURE_INPUTS_NAMED 20u

struct failure_kind {
    uint32_t n; /* tasks merged */
    uint32_t apart;
    uint32_t tasks[FAILURE_TASKS_NAMED]; /* the first ones, by their users' numbers */
    char text[TASK_ENDING_MAX];          /* how they ended */
    char *worker;                        /* the worker of all of them; NULL: there are several */
};

/* Zeroed to start with. */
struct failures {
    struct failure_kind *v;
    uint32_t n, cap;
    uint32_t others;                    /* tasks of further kinds */
    char *inputs[FAILURE_INPUTS_NAMED]; /* the first ones, as input_text() has them */
    uint32_t inputs_n;                  /* all of them */
};

/* How many failures of a kind a list of tasks shows one by one: one if no process ran, since there are no
 * details then. */
uint32_t failures_apart(const struct api_task *t);
/* Adds a failed task. True: it is among the first `apart` of its kind, and is shown by itself. False: it
 * is merged. */
bool failures_add(struct failures *f, const struct api_task *t, uint32_t index, const char *text,
                  uint32_t apart);
/* Prints a line per kind that has merged tasks, at most `lines`, each after `before`. Further kinds are
 * only counted. */
void failures_print(const struct failures *f, FILE *to, const char *before, uint32_t lines);
/* Adds the input of a failed task, for failures_print_inputs(). */
void failures_add_input(struct failures *f, const void *input, size_t len);
/* Prints "BEFORE: alpha, beta", and behind FAILURE_INPUTS_NAMED inputs ", and 10 others: WHERE"; nothing if there
 * are no inputs. */
void failures_print_inputs(const struct failures *f, FILE *to, const char *before, const char *where);
void failures_free(struct failures *f);

#endif
