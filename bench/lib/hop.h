/* What one message from a process to another takes at least: two of them that do nothing but answer each other on one
 * link. What goes from process to process so many times one after the other cannot take less than so many hops. */
#ifndef HAWK_BENCH_LIB_HOP_H
#define HAWK_BENCH_LIB_HOP_H

#include "net/loop.h"

#include <stdint.h>

/* Answers every message that comes to addr, in a process of its own, until it is killed. */
void hop_answer(const char *addr) __attribute__((noreturn));

struct hop;
/* A link to who answers at addr; l is a LOOP_NET one. */
struct hop *hop_new(struct loop *l, const char *addr);
void hop_free(struct hop *h);
/* n times there and back, one after the other: half of what each took, in microseconds, in v. */
void hop_measure(struct hop *h, double *v, uint32_t n);

#endif
