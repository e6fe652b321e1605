/* Jobs that their users hold. */
#ifndef HAWK_CENTRAL_HOLD_H
#define HAWK_CENTRAL_HOLD_H

#include "base/ids.h"

#include <stdint.h>

struct central;
struct long_job;
struct msg;

/* A dist has the job under that epoch. The one before may have held it, and is gone. What a client holds at central
 * stays so until it or a dist releases it: no dist knows of that. */
void central_hold_moved(struct central *c, struct long_job *j, uint16_t owner);
/* A dist that has the job under that epoch has said whether it holds it. If it said nothing, it has no hold from before
 * a client's release at central. */
void central_hold_watched(struct central *c, struct long_job *j, uint16_t owner);
void central_on_long_hold(struct central *c, const struct msg *in);
void central_on_hold(struct central *c, const struct msg *in);
/* client 0: nobody asked. */
void central_hold_answer(struct central *c, job_id_t job, uint32_t client, int err);
void central_on_journal_waits(struct central *c, const struct msg *in);

#endif
