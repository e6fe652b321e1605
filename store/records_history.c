/* Which records of the history make room for the next: see records_history.h. */
#include "store/records_history.h"

#include "base/mem.h"
#include "store/backend.h"

#include <stdlib.h>

struct kept {
    struct crowd_entry entry;
    uint64_t id; /* the record's number */
};

static struct kept *kept_of(struct crowd_entry *e) { return e ? container_of(e, struct kept, entry) : NULL; }

void records_history_init(struct records_history *h, uint32_t max)
{
    *h = (struct records_history){.first = UINT64_MAX};
    crowd_init(&h->kept, max);
}

static void forget_all(struct records_history *h)
{
    struct kept *k;

    while ((k = kept_of(crowd_next(&h->kept, NULL)))) {
        crowd_remove(&h->kept, &k->entry);
        free(k);
    }
    h->read = false;
}

void records_history_free(struct records_history *h)
{
    forget_all(h);
    crowd_free(&h->kept);
}

void records_history_begin(struct records_history *h) { h->first = UINT64_MAX; }
void records_history_failed(struct records_history *h) { forget_all(h); }

static void note_kept(struct records_history *h, uint32_t user, uint64_t id)
{
    struct kept *k = xcalloc(1, sizeof *k);

    k->id = id;
    crowd_add(&h->kept, user, &k->entry);
}

static int read_one(void *arg, const struct record_key *key, struct span value)
{
    struct records_history *h = arg;
    struct msg m;
    int64_t ago_us;

    if (record_decode(key, value, &m, &ago_us))
        return 0; /* recovery says so, and that is not before this */
    if (crowd_excess(&h->kept))
        h->kept.max++; /* a version that kept more wrote them */
    note_kept(h, m.history.user, key->id);
    msg_drop(&m);
    return 0;
}

int records_history_append(struct records_history *h, const struct backend_ops *ops, struct backend *b,
                           const struct entry *e)
{
    struct kept *k;
    uint64_t id;
    int err = 0;

    if (!h->read) {
        err = ops->scan_history(b, read_one, h);
        h->read = !err;
    }
    k = err ? NULL : kept_of(crowd_make_room(&h->kept));
    if (k)
        err = ops->remove(b, &(struct record_key){.table = TABLE_HISTORY, .id = k->id}, PART_JOB);
    free(k);
    if (!err)
        err = ops->append(b, span_of(&e->value), &id);
    if (err)
        return err;
    note_kept(h, e->user, id);
    if (id < h->first)
        h->first = id;
    return 0;
}

bool records_history_fits(const struct records_history *h)
{
    const struct kept *k = kept_of(crowd_excess(&h->kept));

    return !k || k->id < h->first;
}
