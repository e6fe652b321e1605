/* Well-formed messages for a role's step, made of a fuzzer's bytes: what a decoder would let through, from any
 * peer. */
#ifndef HAWK_TESTS_FUZZ_EVENTS_H
#define HAWK_TESTS_FUZZ_EVENTS_H

#include "msg/msg.h"
#include "net/codec.h"
#include "tests/fuzz/lib/input.h"

#define RECENT 16

/* What a role put out last: peers' answers name the same jobs, tries, requests and tokens. */
struct recent {
    struct msg v[RECENT]; /* handles NULL */
    uint32_t n;           /* so many in all */
    uint32_t node;        /* whose jobs are talked of */
};

/* Remembers what was put out. */
void recent_add(struct recent *r, const struct out *out);
/* A message of that type, its fields from the input or from what was put out lately. False: it is one that
 * msg_check refuses (the local ones it does not know are always fine). The handles are the caller's either way. */
bool take_msg(struct input *in, const struct recent *r, enum msg_type type, struct msg *m);
/* The next bytes as a peer's batch: what can be decoded of it goes to deliver. */
void take_batch(struct input *in, codec_deliver_fn *deliver, void *arg);
/* A description that a dist's API would take. */
struct job_desc *take_desc(struct input *in);
struct policy take_policy(struct input *in);
/* What an operator asks for; NULL: what is configured. The caller drops it. */
struct policy_choice *take_choice(struct input *in);
/* Some time on. */
int64_t take_later(struct input *in, int64_t now_us);

/* Heap in use, in bytes, as well as this build can tell. */
size_t heap_bytes(void);

#endif
