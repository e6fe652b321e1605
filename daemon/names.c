/* See names.h. */
#include "daemon/names.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct name {
    uint32_t node;
    enum role role;
    struct blob *text;
    UT_hash_handle hh;
};

static struct name *find(const struct names *n, uint32_t node)
{
    struct name *one;

    HASH_FIND(hh, n->all, &node, sizeof node, one);
    return one;
}

static bool is_name(const struct name *one, enum role role, const struct blob *text)
{
    return one->role == role && blob_eq(one->text, text);
}

static void learn_one(struct names *n, node_id_t node, enum role role, struct blob *text,
                      void (*changed)(void *arg, uint32_t node), void *arg)
{
    struct name *one = find(n, node.v);

    if (!text || (one && is_name(one, role, text)))
        return;
    if (!one) {
        one = xcalloc(1, sizeof *one);
        one->node = node.v;
        HASH_ADD(hh, n->all, node, sizeof one->node, one);
    }
    blob_drop(one->text);
    one->text = blob_ref(text);
    one->role = role;
    changed(arg, node.v);
}

void names_learn(struct names *n, const struct msg *m, void (*changed)(void *arg, uint32_t node), void *arg)
{
    if (m->type == MSG_MEMBER)
        learn_one(n, m->member.node, m->member.role, m->member.name, changed, arg);
    if (m->type != MSG_MEMBERS || !m->members.list)
        return;
    for (uint32_t i = 0; i < m->members.list->n; i++) {
        const struct member *v = &m->members.list->v[i];

        learn_one(n, v->node, v->role, v->name, changed, arg);
    }
}

bool names_fit(const struct names *n, uint32_t node, enum role role, const char *name, const char **known)
{
    const struct name *one = find(n, node);

    *known = one ? one->text->data : NULL;
    return !one || (one->role == role && strcmp(one->text->data, name) == 0);
}

void names_free(struct names *n)
{
    struct name *one, *tmp;

    HASH_ITER(hh, n->all, one, tmp) {
        HASH_DEL(n->all, one); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        blob_drop(one->text);
        free(one);
    }
}
