/* What an operator chose of the policy, as both backends keep it: a Policy of protos/store.proto. */
#ifndef HAWK_STORE_CHOICE_H
#define HAWK_STORE_CHOICE_H

#include "msg/msg.h"
#include "store/wire.h"

/* Appends it to b, chosen now. Its choice must not be NULL. */
void choice_encode(struct codec_buf *b, const struct msg_journal_policy *m);
/* Fills *m, whose choice is the caller's to drop. HAWK_EMALFORMED for what is no such message, or names a policy or a
 * number that there is not; nothing is to be dropped then. */
HAWK_MUST_USE int choice_decode(struct span s, struct msg_journal_policy *m);

#endif
