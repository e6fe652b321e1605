/* Texts that say why tasks of a job failed. Most come from workers. The owner keeps the first JOB_MESSAGES_MAX texts
 * of a job. */
#ifndef HAWK_OWNER_MESSAGES_H
#define HAWK_OWNER_MESSAGES_H

#include "msg/msg.h"

struct owner_message {
    uint32_t task;
    struct blob *text;
};

/* The texts of one job.
 *
 *   n <= JOB_MESSAGES_MAX, and each is of one of the job's tasks and has at most MESSAGE_BYTES_MAX bytes */
struct owner_messages {
    struct owner_message *v;
    uint32_t n, cap;
};

/* Keeps a text of a task, cut to MESSAGE_BYTES_MAX, if the job has room for it. Does nothing if text is NULL or
 * empty. */
void owner_message_keep(struct owner_messages *messages, uint32_t task, struct blob *text);
/* The same for a text that the owner wrote itself. */
void owner_message_say(struct owner_messages *messages, uint32_t task, const char *text);
/* A task has ended. Returns true if it exited with 0: then end->result is the task's result. Otherwise keeps
 * end->result as a text if it says why the task failed: if the task did not start, or its job is for an
 * application. */
static inline bool owner_message_of_end(struct owner_messages *messages, uint32_t task, bool for_app,
                                        const struct msg_task_finished *end)
{
    if (end->outcome == OUTCOME_EXITED && end->code == 0)
        return true;
    if (for_app || end->outcome == OUTCOME_NOT_STARTED)
        owner_message_keep(messages, task, end->result);
    return false;
}
/* The first text of a task, borrowed; or NULL. */
struct blob *owner_message_find(const struct owner_messages *messages, uint32_t task);
void owner_messages_free(struct owner_messages *messages);
/* Aborts unless the invariant holds for a job of so many tasks. */
void owner_messages_check(const struct owner_messages *messages, uint32_t tasks);

#endif
