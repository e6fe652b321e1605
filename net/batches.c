/* See batches.h. */
#include "net/batches.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct batch {
    uint8_t key[TREE_HASH];
    struct signer signer;
};

struct batches {
    struct batch *v; /* BATCHES_MAX, from the first one on */
    uint32_t n, next;
    uint64_t counted;
};

struct batches *batches_new(void) { return xcalloc(1, sizeof(struct batches)); }

void batches_free(struct batches *b)
{
    if (b)
        free(b->v);
    free(b);
}

void batches_forget(struct batches *b) { b->n = b->next = 0; }

const struct signer *batches_find(const struct batches *b, const uint8_t key[TREE_HASH], int64_t now_s)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const struct signer *s = &b->v[i].signer;
        if (memcmp(b->v[i].key, key, TREE_HASH) == 0)
            return s->from_s <= now_s && now_s < s->until_s ? s : NULL;
    }
    return NULL;
}

void batches_add(struct batches *b, const uint8_t key[TREE_HASH], const struct signer *signer)
{
    struct batch *to;

    if (!b->v)
        b->v = xcalloc(BATCHES_MAX, sizeof *b->v);
    to = &b->v[b->next];
    memcpy(to->key, key, TREE_HASH);
    to->signer = *signer;
    b->next = (b->next + 1) % BATCHES_MAX;
    if (b->n < BATCHES_MAX)
        b->n++;
}

void batches_count(struct batches *b) { b->counted++; }
uint64_t batches_counted(const struct batches *b) { return b->counted; }
