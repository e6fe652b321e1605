/* The thief (Hawk 3.6): which workers an idle worker asks, in which order, when it gives up, and when it tries again.
 * Pure: it names the next victim; the worker sends and receives.
 *
 * A round asks up to steal_cap distinct general workers, drawn at random, one after another. The first victim that
 * gives loot ends it. After a round without loot the thief is parked. Then central pairs it with a stuck worker
 * (thief_hint()). Without central it tries again by itself, after a delay that doubles from park_min_us to
 * park_max_us, give or take an eighth.
 *
 * With POLICY_STEAL_ADAPT each round without loot halves the length of the next, down to one victim. A round with
 * loot makes it steal_cap again. While hints pair, 95 of 100 questions are in vain. */
#ifndef HAWK_STEALER_THIEF_H
#define HAWK_STEALER_THIEF_H

#include "base/rng.h"
#include "base/units.h"
#include "msg/types.h"

/* The order of one round: indexes start, start + stride, start + 2 stride, … modulo the least prime that is
 * at least n; indexes from n on are left out. Each round draws start and stride. Each index comes once. Each
 * index is equally likely in every place, and each pair is in every two places (up to about 1/n if n is not
 * prime). So the number of stuck workers among those asked has the mean and the variance of a true sample. A
 * round over 100,000 members copies and marks nothing. O(1) memory and time per draw; O(sqrt n) when n
 * changed. */
struct victims {
    uint32_t n;      /* indexes 0 .. n-1 */
    uint32_t left;   /* indexes that are not drawn yet */
    uint32_t prime;  /* for n; kept from round to round */
    uint32_t stride; /* 1 .. prime-1 */
    uint64_t at;     /* the next index, if below n */
};

void thief_victims_begin(struct victims *v, struct rng *r, uint32_t n);
/* Draws the next index: each of 0 .. n-1 once, then n. */
uint32_t thief_victims_next(struct victims *v);

/* A victim that has not answered after this time may be cut off: the thief asks the next one. */
#define THIEF_ANSWER_US US_PER_S

enum thief_state {
    THIEF_OFF,    /* not looking for work */
    THIEF_ROUND,  /* in a round, about to ask */
    THIEF_ASKED,  /* in a round, one answer outstanding, for THIEF_ANSWER_US at most */
    THIEF_PARKED, /* looking for work; waits for retry_at or a hint */
};

struct thief {
    int64_t retry_at;  /* THIEF_PARKED: when it tries again by itself; TIME_NEVER: it does not */
    int64_t answer_by; /* THIEF_ASKED: when it stops waiting for the answer */
    node_id_t victim;  /* THIEF_ASKED: the worker that owes an answer */
    node_id_t hint;    /* the worker that it asks next; NODE_NONE: none */
    uint32_t request;  /* number of the last STEAL_REQUEST */
    uint16_t left;     /* victims that this round may still ask */
    uint16_t cap;      /* POLICY_STEAL_ADAPT: most victims of the next round; 0: steal_cap */
    uint16_t index;    /* THIEF_ASKED: the index of the next item of the loot */
    uint8_t state;     /* enum thief_state */
    bool hinted;       /* the round is a single question, after central's hint */
    uint16_t asked;    /* victims asked in this round so far */
    bool got_loot;     /* the worker sets it when it accepts an item: this answer ends the round */
    int64_t delay_us;  /* the last delay; 0: none yet */
    struct victims order;
};

/* The thief's view of its worker; borrowed for one call. */
struct thief_env {
    int64_t now_us;
    int64_t park_min_us, park_max_us;
    const struct policy *policy;
    const struct members *members; /* may be NULL */
    struct rng *rng;
    node_id_t self;
    bool hungry;    /* a free slot and an empty queue */
    bool long_work; /* central says that some long work exists */
    bool
        paired; /* central is up and hears of this thief: it pairs it with victims, if the policy has hints */
    bool freed; /* a slot became free just now, and the queue had nothing for it */
};

void thief_init(struct thief *t);
/* Moves the state on. Call it after everything else of a step. Returns the worker to which STEAL_REQUEST
 * number t->request goes now, or NODE_NONE. At most one request is outstanding. */
node_id_t thief_step(struct thief *t, const struct thief_env *env);
/* Central's hint: the next thief_step() asks that victim, even when parked. */
void thief_hint(struct thief *t, const struct thief_env *env, node_id_t victim);

/* Whether the thief waits for what `from` says to this request. */
bool thief_asked(const struct thief *t, node_id_t from, uint32_t request);

enum thief_answer {
    /* Not the answer that the thief waits for: from before a reconnection, repeated, or invented. */
    ANSWER_UNKNOWN,
    ANSWER_EMPTY, /* the victim has no loot: thief_step() goes on */
    ANSWER_ITEM,  /* the next item of the loot: the worker accepts it (and sets got_loot) or refuses it */
};
/* A STEAL_LOOT came from `from`. */
enum thief_answer thief_answer(struct thief *t, node_id_t from, uint32_t request, uint16_t index,
                               uint16_t items);
/* The stream to a node is gone: an answer that it owes will not come. */
void thief_peer_lost(struct thief *t, node_id_t node);
/* When thief_step() must run without an event: while parked or asked; else TIME_NEVER. */
int64_t thief_next_timeout(const struct thief *t);
void thief_check(const struct thief *t);

#endif
