/* Texts of failed tasks: see messages.h. */
#include "owner/messages.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

void owner_message_keep(struct owner_messages *messages, uint32_t task, struct blob *text)
{
    if (!text || text->len == 0 || messages->n == JOB_MESSAGES_MAX)
        return;
    vec_grow(messages->v, messages->n, messages->cap);
    messages->v[messages->n++] =
        (struct owner_message){.task = task, .text = blob_cut(text, MESSAGE_BYTES_MAX)};
}

void owner_message_say(struct owner_messages *messages, uint32_t task, const char *text)
{
    struct blob *b = blob_str(text);

    owner_message_keep(messages, task, b);
    blob_drop(b);
}

struct blob *owner_message_find(const struct owner_messages *messages, uint32_t task)
{
    for (uint32_t i = 0; i < messages->n; i++)
        if (messages->v[i].task == task)
            return messages->v[i].text;
    return NULL;
}

void owner_messages_free(struct owner_messages *messages)
{
    while (messages->n > 0)
        blob_drop(messages->v[--messages->n].text);
    free(messages->v);
}

void owner_messages_check(const struct owner_messages *messages, uint32_t tasks)
{
    CHECK(messages->n <= JOB_MESSAGES_MAX);
    for (uint32_t i = 0; i < messages->n; i++)
        CHECK(messages->v[i].task < tasks && messages->v[i].text->len <= MESSAGE_BYTES_MAX);
}
