/* Uses of invitations: which names have got a certificate by which (daemon/joining.c has the rest). A use is on record
 * before its certificate leaves, so that a used invitation stays used. */
#include "central/admission.h"
#include "central/journal.h"

#include "base/mem.h"

#include <stdlib.h>

/* No invitation is good for longer (INVITATION_LIFE_MAX_US of ca/invitation.h), so older uses do not matter. */
#define KEPT_US (INT64_C(31) * 24 * 3600 * US_PER_S)
#define ADMISSIONS_MAX 200000u

struct admission {
    uint64_t use, invitation;
    int64_t at_us; /* may be before time 0 */
    struct blob *name;
    uint8_t role;
};

static void forget_old(struct central *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->admissions_n; i++)
        if (c->now_us - c->admissions[i].at_us <= KEPT_US)
            c->admissions[n++] = c->admissions[i];
        else
            blob_drop(c->admissions[i].name);
    c->admissions_n = n;
}

/* Whether somebody else has the name: a node, or a use that may still become one. */
static bool name_taken(const struct central *c, uint64_t use, uint8_t role, const struct blob *name)
{
    for (uint32_t i = 0; i < c->admissions_n; i++)
        if (c->admissions[i].use != use && c->admissions[i].role == role &&
            blob_eq(c->admissions[i].name, name))
            return true;
    for (uint32_t id = 1; id < c->nodes_end; id++)
        if (c->nodes[id] && c->nodes[id]->role == role && blob_eq(c->nodes[id]->name, name))
            return true;
    return false;
}

static struct admission *find_use(const struct central *c, uint64_t use)
{
    for (uint32_t i = 0; i < c->admissions_n; i++)
        if (c->admissions[i].use == use)
            return &c->admissions[i];
    return NULL;
}

static int admission_refusal(const struct central *c, const struct msg_admit *m)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < c->admissions_n; i++)
        used += c->admissions[i].invitation == m->invitation;
    if (used >= m->uses)
        return HAWK_ELIMIT;
    if (m->several && name_taken(c, m->use, m->role, m->name))
        return HAWK_ENAME_TAKEN;
    return c->admissions_n >= ADMISSIONS_MAX ? HAWK_EBUSY : 0;
}

static struct admission *add_use(struct central *c, uint64_t use, uint64_t invitation, uint8_t role,
                                 struct blob *name, int64_t at_us)
{
    vec_grow(c->admissions, c->admissions_n, c->admissions_cap);
    c->admissions[c->admissions_n] = (struct admission){
        .use = use, .invitation = invitation, .at_us = at_us, .name = blob_ref(name), .role = role};
    return &c->admissions[c->admissions_n++];
}

void central_admission_answer(struct central *c, uint32_t client, int32_t err)
{
    struct msg *m;

    if (!client)
        return;
    m = out_add(c->out, MSG_ADMITTED, 0);
    m->admitted.client = client;
    m->admitted.err = err;
}

void central_on_admit(struct central *c, const struct msg *in)
{
    const struct msg_admit *m = &in->admit;
    struct admission *a;
    int err;

    forget_old(c);
    a = find_use(c, m->use);
    err = a ? 0 : admission_refusal(c, m);
    if (err) {
        central_admission_answer(c, m->client, err);
        return;
    }
    if (!a) /* one that is there may not be durable yet: it is put out again */
        a = add_use(c, m->use, m->invitation, m->role, m->name, c->now_us);
    central_journal_admission(c, a, m->client);
}

void central_admission_write(struct central *c, const struct admission *a)
{
    struct msg *m = out_add(c->out, MSG_JOURNAL_ADMITTED, 0);

    m->journal_admitted.name = blob_ref(a->name);
    m->journal_admitted.token = c->token;
    m->journal_admitted.invitation = a->invitation;
    m->journal_admitted.use = a->use;
    m->journal_admitted.role = a->role;
}

void central_on_journal_admitted(struct central *c, const struct msg *in)
{
    const struct msg_journal_admitted *m = &in->journal_admitted;

    if (!find_use(c, m->use))
        add_use(c, m->use, m->invitation, m->role, m->name, c->now_us - m->ago_us);
}

void central_admissions_free(struct central *c)
{
    for (uint32_t i = 0; i < c->admissions_n; i++)
        blob_drop(c->admissions[i].name);
    free(c->admissions);
}
