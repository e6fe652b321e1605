/* Jobs and tasks as JSON and as words: shared by the commands that show them. */
#ifndef HAWK_CLI_SHOW_H
#define HAWK_CLI_SHOW_H

#include "cli/print.h"
#include "cli/session.h"

/* Texts of enums from the network: "unknown" for a newer cluster's value. */
const char *show_job_state(uint32_t v);
/* The same, and whether tasks of it that have not started are held; static. */
const char *show_state_of(const struct api_job *j);
const char *show_task_state(uint32_t v);
const char *show_class(uint32_t v);
const char *show_tag(uint32_t v);
const char *show_why(uint32_t v);

/* Whether it is known what the node does: a dist that cannot ask central does not know it. Central does nothing. */
bool show_has_load(const struct api_node *n);
/* Central has no number of its own: several processes may be central, one after the other. */
bool show_has_id(const struct api_node *n);
/* "draining", or "drained" when nothing is left there; else the state for central. */
/* Whose tasks executors of its i-th application take; "": everybody's. */
const char *show_app_user(const struct api_node *n, uint32_t i);
const char *show_node_state(const struct api_node *n);
json_t *node_json(const struct api_node *n);
json_t *job_json(const struct api_job *j);
/* Adds the jobs in whose tasks the job was submitted to o. A newer server may send more than LIMIT_ANCESTORS: these are
 * left out. */
void ancestors_json(json_t *o, const struct ancestors *a);
/* Prints a line about them, if there are any. */
/* "started_at" and "ended_at" of a task. */
void task_times_json(json_t *o, const struct api_job *j, const struct api_task *t);
/* When the task ended, after its job was submitted; -1: not yet. */
int64_t task_end_us(const struct api_task *t);
/* The time of day, us after the job was submitted, with the date if that is another day: "16:02:01", "11-26 00:10:00";
 * "-": us is below 0. */
const char *task_clock(char buf[CLOCK_TEXT], const struct api_job *j, int64_t us);
/* Lines of a job: its times of day; what it waits for, and why it was cancelled. spec may be NULL. */
void show_times(const struct api_job *j);
void show_waits(const struct api_job *j, const struct job_desc *spec);
/* Why it was cancelled, or tasks of it, for a message; NULL: nothing is known. spec may be NULL. */
#define CAUSE_TEXT 96
const char *show_cause(char buf[CAUSE_TEXT], const struct api_job *j, const struct job_desc *spec);
/* What its tasks run, in which directory, with which limits and output files: as lines, and, with the jobs that it
 * comes after, as members of the job's object. */
void show_command(const struct job_desc *spec);
json_t *words_json(const struct strings *argv);
void command_json(json_t *o, const struct job_desc *spec);
void show_ancestors(const struct ancestors *a);
/* first_index: the HAWK_TASK_INDEX of task 0. */
json_t *task_json(const struct api_task *t, uint32_t first_index);
/* A figure of what a task used: null where it is not known. */
json_t *known_json(int64_t n);
/* Adds what is known of a task's pauses to o, as task_json does. */
void pauses_json(json_t *o, const struct api_task *t);
/* Prints a line about the job's pauses, if it had any. */
void show_pauses(const struct api_job *j);
#define TASK_ENDING_MAX 256u /* bytes that hold any ending */
/* How a task ended, or where it stands: "exited 3", "killed by signal 9 (Killed)", "running", "killed,
 * time limit of 5s over" (limit_us: the job's, 0 where it is not known), "not started (126): cannot enter
 * the directory /x: …". */
const char *task_ending(char *buf, size_t size, const struct api_task *t, int64_t limit_us);

/* Calls fn with a job and all of its tasks, in pages of at most API_PAGE_MAX, `limit` tasks at most (0:
 * none, so that it calls fn once without tasks; UINT32_MAX: all). Only the first `page` has the spec, so
 * *first_index is given each time. fn returns other than 0 to end it. Returns HAWK_E..., 0, or fn's value. */
typedef int page_fn(void *ctx, const struct api_get_job_reply *page, uint32_t first_index);
int job_pages(struct client *client, job_id_t job, uint32_t first_task, uint32_t limit, page_fn *fn,
              void *ctx);
/* The same with the tasks' results. */
int job_result_pages(struct client *client, job_id_t job, uint32_t first_task, uint32_t limit, page_fn *fn,
                     void *ctx);

/* The numbers of the job's tasks as users know them, those of HAWK_TASK_INDEX. An error: client_error() tells. */
int task_numbers(const struct session *s, job_id_t job, uint32_t *first, uint32_t *last);
/* Finds the task that a user's number means: the HAWK_TASK_INDEX in the task. HAWK_EXIT_OK; HAWK_EXIT_USAGE after a
 * message: the job has no such task; HAWK_E...: client_error() tells. */
int task_find(const struct session *s, job_id_t job, const char *text, uint32_t *task);

#endif
