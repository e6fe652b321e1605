/* Central's journal: records that wait for it, in order, and records that could not be written (protocol 11). */
#ifndef HAWK_CENTRAL_JOURNAL_H
#define HAWK_CENTRAL_JOURNAL_H

#include "central/state.h"

/* Each puts out a record under a new token. `client` waits for the answer; 0: none does. The node, the job that is
 * new or has ended, and the task that has ended stay until their record is written. */
void central_journal_node(struct central *c, struct node *n);
void central_journal_drain(struct central *c, struct node *n, uint32_t client);
void central_journal_cluster(struct central *c);
void central_journal_policy(struct central *c, uint32_t client);
void central_journal_admission(struct central *c, const struct admission *a, uint32_t client);
void central_journal_job(struct central *c, struct long_job *j);
void central_journal_job_end(struct central *c, struct long_job *j);
/* Removes a job, unless it is submitted anew before that is written. */
void central_journal_forget(struct central *c, struct long_key key);
void central_journal_cancel(struct central *c, const struct long_job *j, uint32_t client);
void central_journal_owner(struct central *c, const struct long_job *j);
/* That central may send the job's tasks up to j->releasing. */
void central_journal_released(struct central *c, const struct long_job *j);
void central_journal_waits(struct central *c, const struct long_job *j, uint32_t client);
void central_journal_task(struct central *c, struct long_task *t);
/* The launch of an at-most-once task: central_task_launch_journalled() follows. */
void central_journal_launch(struct central *c, const struct long_task *t);
/* Another try of a task whose last one failed or was lost. Nothing waits for it. */
void central_journal_note(struct central *c, const struct long_task *t);
void central_on_journal_done(struct central *c, const struct msg *in);
void central_journal_run(struct central *c);
void central_journal_free(struct central *c);

#endif
