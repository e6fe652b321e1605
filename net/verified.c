/* See verified.h. */
#include "net/verified.h"

#include "base/mem.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    uint8_t key[TREE_HASH];
    struct signer signer;
};

/* The last VERIFIED_MAX. */
struct ring {
    struct entry *v;
    uint32_t n, next;
    uint64_t counted;
};

struct verified {
    struct ring rings[VERIFIED_KINDS];
};

struct verified *verified_new(void) { return xcalloc(1, sizeof(struct verified)); }

static void forget_ring(struct ring *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        EVP_PKEY_free(r->v[i].signer.key);
    r->n = r->next = 0;
}

void verified_forget(struct verified *v)
{
    for (int kind = 0; kind < VERIFIED_KINDS; kind++)
        forget_ring(&v->rings[kind]);
}

void verified_free(struct verified *v)
{
    if (!v)
        return;
    verified_forget(v);
    for (int kind = 0; kind < VERIFIED_KINDS; kind++)
        free(v->rings[kind].v);
    free(v);
}

const struct signer *verified_find(const struct verified *v, enum verified_kind kind,
                                   const uint8_t key[TREE_HASH], int64_t now_s)
{
    const struct ring *r = &v->rings[kind];

    for (uint32_t i = 0; i < r->n; i++) {
        const struct signer *s = &r->v[i].signer;
        if (memcmp(r->v[i].key, key, TREE_HASH) == 0)
            return s->from_s <= now_s && now_s < s->until_s ? s : NULL;
    }
    return NULL;
}

void verified_add(struct verified *v, enum verified_kind kind, const uint8_t key[TREE_HASH],
                  const struct signer *signer)
{
    struct ring *r = &v->rings[kind];
    struct entry *to;

    if (!r->v)
        r->v = xcalloc(VERIFIED_MAX, sizeof *r->v);
    to = &r->v[r->next];
    if (signer->key)
        EVP_PKEY_up_ref(signer->key);
    if (r->n == VERIFIED_MAX)
        EVP_PKEY_free(to->signer.key);
    else
        r->n++;
    memcpy(to->key, key, TREE_HASH);
    to->signer = *signer;
    r->next = (r->next + 1) % VERIFIED_MAX;
}

void verified_count(struct verified *v, enum verified_kind kind) { v->rings[kind].counted++; }

uint64_t verified_counted(const struct verified *v, enum verified_kind kind)
{
    return v->rings[kind].counted;
}
