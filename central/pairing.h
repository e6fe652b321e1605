/* Idle thieves, stuck workers, and whether there is long work at all (docs/protocol.md 5). */
#ifndef HAWK_CENTRAL_PAIRING_H
#define HAWK_CENTRAL_PAIRING_H

#include <stdint.h>

struct central;
struct msg;
struct node;

void central_on_long_request(struct central *c, const struct msg *in);
void central_on_parked(struct central *c, const struct msg *in);
void central_on_stuck(struct central *c, const struct msg *in);
/* From now on n serves these applications (app_set). */
void central_pairing_serves(struct central *c, struct node *n, uint64_t apps);
/* Aborts unless its counts match its lists. */
void central_pairing_check(const struct central *c);
void central_pairing_forget(struct central *c, struct node *n);
void central_pairing_send_long_work(struct central *c, const struct node *worker);
int64_t central_pairing_due_us(const struct central *c);
/* Sends hints that are due, and the edges of LONG_WORK. */
void central_pairing_run(struct central *c);

#endif
