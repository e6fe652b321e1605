/* The thief (Hawk 3.6): whom an idle worker asks, in what order, when it gives up, and when it tries again.
 * Pure: it says whom to ask next; the worker sends and receives.
 *
 * A round asks up to steal_cap distinct general workers, drawn at random, one after another, and ends with
 * the first that gives. After a round without loot the thief is parked. Central then pairs it with a stuck
 * worker (thief_hint); without central it tries again by itself after a delay that doubles from park_min_us
 * to park_max_us, more or less an eighth.
 * With POLICY_STEAL_ADAPT each round without loot halves what the next one asks, down to one worker, and one
 * with loot makes it steal_cap again: while hints do the pairing, 95 of 100 questions are in vain. */
#ifndef HAWK_STEALER_THIEF_H
#define HAWK_STEALER_THIEF_H

#include "base/rng.h"
#include "base/units.h"
#include "msg/types.h"

/* The order of one round: indexes start, start + stride, start + 2 stride, … modulo the least prime that is
 * not below n, leaving out what is not below n; start and stride are drawn for each round. Each index comes
 * once, each is equally likely in every place, and so is each pair in every two places (for an n that is not
 * prime up to a share of about 1/n): the number of stuck workers among those asked has the mean and the
 * variance of a true sample. A round over 100,000 members
 * copies and marks nothing. O(1) memory and time per draw; O(sqrt n) when n changed. */
struct victims {
    uint32_t n;      /* indexes 0 .. n-1 */
    uint32_t left;   /* of them not drawn yet */
    uint32_t prime;  /* of n; kept from round to round */
    uint32_t stride; /* 1 .. prime-1 */
    uint64_t at;     /* the next one, if below n */
};

void victims_begin(struct victims *v, struct rng *r, uint32_t n);
/* The next index, each of 0 .. n-1 once; n when all have been. */
uint32_t victims_next(struct victims *v);

/* A victim that has not answered by then may be cut off: somebody else is asked. */
#define THIEF_ANSWER_US US_PER_S

enum thief_state {
    THIEF_OFF,    /* not looking for work */
    THIEF_ROUND,  /* in a round, about to ask */
    THIEF_ASKED,  /* in a round, one answer outstanding, for THIEF_ANSWER_US at most */
    THIEF_PARKED, /* looking for work, waiting for retry_at or a hint */
};

struct thief {
    int64_t retry_at;  /* THIEF_PARKED: when to try by itself; TIME_NEVER: not */
    int64_t answer_by; /* THIEF_ASKED: when to go on without */
    node_id_t victim;  /* THIEF_ASKED: who owes an answer */
    node_id_t hint;    /* ask this one next; NODE_NONE */
    uint32_t request;  /* number of the last request */
    uint16_t left;     /* victims the round may still ask */
    uint16_t cap;      /* POLICY_STEAL_ADAPT: victims the next round asks at most; 0: steal_cap */
    uint16_t index;    /* THIEF_ASKED: the next item expected */
    uint8_t state;     /* enum thief_state */
    bool hinted;       /* the round is one question only, asked on central's word */
    uint16_t asked;    /* questions of this round so far */
    bool got_loot;     /* set by the worker when it accepted an item: the round ends with this answer */
    int64_t delay_us;  /* the last delay; 0: none yet */
    struct victims order;
};

/* What the thief looks at; borrowed for one call. */
struct thief_env {
    int64_t now_us;
    int64_t park_min_us, park_max_us;
    const struct policy *policy;
    const struct members *members; /* may be NULL */
    struct rng *rng;
    node_id_t self;
    bool hungry;    /* a free slot and an empty queue */
    bool long_work; /* central says there is long work somewhere */
    bool paired;    /* central is there to pair parked thieves with victims, if the policy has it do so */
    bool freed;     /* a slot was freed just now and found nothing in the queue */
};

void thief_init(struct thief *t);
/* To be called after everything else of a step: moves the state on. Returns whom to send a STEAL_REQUEST with
 * number t->request now, or NODE_NONE. At most one is outstanding. */
node_id_t thief_step(struct thief *t, const struct thief_env *env);
/* Central's hint: that victim is the next one asked, by thief_step, even while parked. */
void thief_hint(struct thief *t, const struct thief_env *env, node_id_t victim);

enum thief_answer {
    ANSWER_UNKNOWN, /* not what was asked for: lost in a reconnection, repeated, or made up */
    ANSWER_EMPTY,   /* nothing to steal there: thief_step goes on */
    ANSWER_ITEM,    /* the next item of the loot: to be accepted (then set got_loot) or refused */
};
/* A STEAL_LOOT from `from`. */
enum thief_answer thief_answer(struct thief *t, node_id_t from, uint32_t request, uint16_t index,
                               uint16_t items);
/* The stream to a node is gone: an answer it owes will not come. */
void thief_peer_lost(struct thief *t, node_id_t node);
/* When thief_step wants to be called without an event: while parked, or asked; else TIME_NEVER. */
int64_t thief_next_timeout(const struct thief *t);
void thief_check(const struct thief *t);

#endif
