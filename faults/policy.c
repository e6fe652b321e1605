/* An operator of a virtual cluster: changes its policy, and remembers central's answers. */
#include "faults/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void cluster_set_policy(struct cluster *c, struct policy_choice *choice)
{
    struct msg m = {.type = MSG_SET_POLICY,
                    .set_policy = {.choice = choice, .client = ++c->operator.clients } };

    msg_ref(&m);
    cluster_post(c, c->central_ep, m);
}

void cluster_set_share(struct cluster *c, uint32_t share_ppm)
{
    struct policy_choice *choice = policy_choice_new();

    choice->v.short_share_ppm = share_ppm;
    choice->numbers = POLICY_NUMBER_SHARE;
    cluster_set_policy(c, choice);
    policy_choice_drop(choice);
}

/* Central's policy now, without the numbers that history computes. */
static struct policy in_force(const struct cluster *c)
{
    struct policy p = *central_policy(c->central);

    p.version = 0;
    if (central_policy_number_origin(c->central, POLICY_NUMBER_CUTOFF) != POLICY_FROM_SET)
        p.cutoff_us = 0;
    if (central_policy_number_origin(c->central, POLICY_NUMBER_SHARE) != POLICY_FROM_SET)
        p.short_share_ppm = 0;
    return p;
}

static bool equal(const struct policy *a, const struct policy *b)
{
#define X(name, bit, scope, field, min, max)                                                                 \
    if (a->field != b->field)                                                                                \
        return false;
    POLICY_NUMBERS(X)
#undef X
    return a->flags == b->flags;
}

void cluster_operator_answered(struct cluster *c, const struct msg_policy_set *m)
{
    struct cluster_operator *o = &c->operator;

    for (uint32_t i = o->told; i < o->n && !m->err; i++)
        if (o->v[i].client == m->client)
            o->told = i;
}

/* Checks the policy after a step of central's. */
void cluster_check_policy(struct cluster *c)
{
    struct cluster_operator *o = &c->operator;
    struct policy p = in_force(c);

    if (o->asks || o->n == 0) {
        vec_grow(o->v, o->n, o->cap);
        o->v[o->n++] = (struct cluster_policy){.client = o->asks, .policy = p};
        o->asks = 0;
        return;
    }
    /* A crash may lose changes that central has not answered. */
    while (o->n > o->told + 1 && !equal(&o->v[o->n - 1].policy, &p))
        o->n--;
    if (!equal(&o->v[o->n - 1].policy, &p))
        cluster_fail(c, INVARIANT_POLICY, "central has flags 0x%x, an operator was told that it has 0x%x",
                     p.flags, o->v[o->n - 1].policy.flags);
}

bool cluster_agrees(struct cluster *c, void *arg)
{
    uint32_t version = central_policy(c->central)->version;

    for (uint32_t i = 0; i < c->workers_n; i++)
        if (c->workers[i]->alive && worker_policy(&c->workers[i]->w)->version != version)
            return false;
    for (uint32_t i = 0; i < c->dists_n; i++)
        if (c->dists[i]->alive && dist_policy(&c->dists[i]->d)->version != version)
            return false;
    return true;
}
