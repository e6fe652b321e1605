/* Messages on their way to a backend: see backend.h. */
#include "base/mem.h"
#include "base/units.h"
#include "net/codec.h"
#include "store/backend.h"
#include "store/choice.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

int64_t wall_ago_us(int64_t at_us)
{
    int64_t now_us = wall_us();

    if (at_us >= now_us)
        return 0;
    return now_us - at_us < LIMIT_TIME_US ? now_us - at_us : LIMIT_TIME_US;
}

static uint8_t *copy(const void *data, size_t n) { return n ? memcpy(xmalloc(n), data, n) : xcalloc(1, 1); }

static void take_name(struct entry *e, const struct blob *name)
{
    e->text_len = name ? name->len : 0;
    e->text = copy(name ? name->data : NULL, e->text_len);
}

static void take_job(struct entry *e, const struct msg_journal_job *j)
{
    struct codec_buf b = {0};

    if (j->desc) {
        codec_desc_encode(&b, j->desc, true);
        e->text = b.data ? b.data : xcalloc(1, 1);
        e->text_len = b.len;
    }
    if (!j->tasks)
        return;
    e->tasks_len = (size_t)j->tasks->n * sizeof(uint32_t);
    e->tasks = xmalloc(e->tasks_len);
    for (uint32_t i = 0; i < j->tasks->n; i++) {
        uint32_t v = htole32(j->tasks->v[i]);

        memcpy(e->tasks + i * sizeof v, &v, sizeof v);
    }
}

static void take_choice(struct entry *e, const struct msg_journal_policy *p)
{
    struct codec_buf b = {0};

    if (!p->choice)
        return;
    choice_encode(&b, p);
    e->text = b.data;
    e->text_len = b.len;
}

struct entry *entry_new(const struct msg *m)
{
    struct entry *e = xcalloc(1, sizeof *e);

    e->m = *m;
    switch (m->type) {
    case MSG_JOURNAL_NODE:
        take_name(e, m->journal_node.name);
        e->m.journal_node.name = NULL;
        break;
    case MSG_JOURNAL_JOB:
        take_job(e, &m->journal_job);
        e->m.journal_job.desc = NULL;
        e->m.journal_job.tasks = NULL;
        break;
    case MSG_HISTORY:
        take_name(e, m->history.name);
        e->m.history.name = NULL;
        break;
    case MSG_JOURNAL_POLICY:
        take_choice(e, &m->journal_policy);
        e->m.journal_policy.choice = NULL;
        break;
    case MSG_JOURNAL_TASK:
    case MSG_JOURNAL_CLUSTER:
    case MSG_JOURNAL_CANCEL:
    case MSG_JOURNAL_OWNER:
    case MSG_JOURNAL_ENDED:
    case MSG_JOURNAL_JOB_END:
    case MSG_JOURNAL_NUMBERS:
        break;
    default:
        free(e);
        return NULL;
    }
    e->bytes = sizeof *e + e->text_len + e->tasks_len;
    return e;
}

void entry_free(struct entry *e)
{
    free(e->text);
    free(e->tasks);
    free(e);
}

bool name_is_good(const void *name, size_t len)
{
    return len <= LIMIT_NAME_BYTES && (len == 0 || !memchr(name, '\0', len));
}
