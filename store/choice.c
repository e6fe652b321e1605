/* An operator's choice of the policy in the journal: see choice.h. */
#include "store/choice.h"

#include "base/err.h"
#include "store.pb.h"
#include "store/backend.h"

#include <string.h>

void choice_encode(struct codec_buf *b, const struct msg_journal_policy *m)
{
    const struct policy_choice *c = m->choice;

    if (c->preset)
        wire_put_bytes(b, hawk_store_Policy_preset_tag, span_text(policy_names[c->preset - 1]));
    wire_put_number(b, hawk_store_Policy_flags_tag, c->flags);
    wire_put_number(b, hawk_store_Policy_on_tag, c->v.flags & c->flags);
    wire_put_number(b, hawk_store_Policy_numbers_tag, c->numbers);
#define X(name, bit, scope, field, min, max)                                                                 \
    if (c->numbers & POLICY_NUMBER_##name)                                                                   \
        wire_put_number(b, hawk_store_Policy_##field##_tag, (uint64_t)c->v.field);
    POLICY_NUMBERS(X)
#undef X
    wire_put_number(b, hawk_store_Policy_configured_tag, m->configured);
    wire_put_number(b, hawk_store_Policy_at_us_tag, (uint64_t)wall_us());
}

/* Takes a number if it is one, and not above its range. */
#define TAKE(to, max)                                                                                        \
    do {                                                                                                     \
        if (f->is_bytes || f->number > (uint64_t)(max))                                                      \
            return HAWK_EMALFORMED;                                                                          \
        (to) = f->number;                                                                                    \
    } while (0)

static int take(const struct wire_field *f, struct policy_choice *c, struct msg_journal_policy *m)
{
    uint64_t v = 0;

    switch (f->tag) {
    case hawk_store_Policy_preset_tag:
        c->preset = f->is_bytes ? policy_preset_number((const char *)f->bytes.data, f->bytes.len) : 0;
        return c->preset ? 0 : HAWK_EMALFORMED;
    case hawk_store_Policy_flags_tag:
        TAKE(v, UINT32_MAX);
        c->flags = (uint32_t)v;
        return 0;
    case hawk_store_Policy_on_tag:
        TAKE(v, UINT32_MAX);
        c->v.flags = (uint32_t)v;
        return 0;
    case hawk_store_Policy_numbers_tag:
        TAKE(v, POLICY_NUMBERS_ALL);
        c->numbers = (uint8_t)v;
        return 0;
    case hawk_store_Policy_configured_tag:
        TAKE(m->configured, UINT64_MAX);
        return 0;
    case hawk_store_Policy_at_us_tag:
        TAKE(v, INT64_MAX);
        m->ago_us = wall_ago_us((int64_t)v);
        return 0;
#define X(name, bit, scope, field, min, max)                                                                 \
    case hawk_store_Policy_##field##_tag:                                                                    \
        TAKE(v, max);                                                                                        \
        c->v.field = (__typeof__(c->v.field))v;                                                              \
        return 0;
        POLICY_NUMBERS(X)
#undef X
    default:
        return 0; /* of a newer Hawk */
    }
}

int choice_decode(struct span s, struct msg_journal_policy *m)
{
    struct policy_choice *c = policy_choice_new();
    struct policy p;
    struct wire_field f;
    const char *field;
    int got, err = 0;

    *m = (struct msg_journal_policy){0};
    while (!err && (got = wire_next(&s, &f)) > 0)
        err = take(&f, c, m);
    if (!err && got < 0)
        err = got;
    /* A number that is 0 has no field. */
    if (!err && policy_preset(policy_names[0], &p) == 0) {
        policy_choose(&p, c);
        err = policy_check(&p, &field) ? HAWK_EMALFORMED : 0;
    }
    if (err) {
        policy_choice_drop(c);
        return HAWK_EMALFORMED;
    }
    m->choice = c;
    return 0;
}
