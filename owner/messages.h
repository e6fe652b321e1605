/* Why tasks of a job failed, in the words of their workers. The owner keeps the first JOB_MESSAGES_MAX of a job. */
#ifndef HAWK_OWNER_MESSAGES_H
#define HAWK_OWNER_MESSAGES_H

#include "msg/msg.h"

struct owner_message {
    uint32_t task;
    struct blob *text;
};

/* A job's.
 *
 *   n <= JOB_MESSAGES_MAX, and each is of one of the job's tasks and has at most MESSAGE_BYTES_MAX bytes */
struct owner_messages {
    struct owner_message *v;
    uint32_t n, cap;
};

/* Keeps a text of a task, cut to MESSAGE_BYTES_MAX, if the job has room for it. text may be NULL: then there
 * is nothing to keep. */
void owner_message_keep(struct owner_messages *messages, uint32_t task, struct blob *text);
/* The same, of a text of the owner's own. */
void owner_message_say(struct owner_messages *messages, uint32_t task, const char *text);
/* Keeps what came with the end of a task, if it says why the task failed: of a task that did not start, and
 * of any failed task for an application. Returns whether the task has exited with 0, so that what came is its
 * result. */
static inline bool owner_message_of_end(struct owner_messages *messages, uint32_t task, bool for_app,
                                        const struct msg_task_finished *end)
{
    if (end->outcome == OUTCOME_EXITED && end->code == 0)
        return true;
    if (for_app || end->outcome == OUTCOME_NOT_STARTED)
        owner_message_keep(messages, task, end->result);
    return false;
}
/* The first text of a task, or NULL. */
struct blob *owner_message_find(const struct owner_messages *messages, uint32_t task);
void owner_messages_free(struct owner_messages *messages);
/* Aborts unless the invariant holds for a job of so many tasks. */
void owner_messages_check(const struct owner_messages *messages, uint32_t tasks);

#endif
