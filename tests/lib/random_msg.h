/* Messages with random content that passes msg_check, made and compared field by field from the lists in msg/msg.h. */
#ifndef HAWK_TESTS_RANDOM_MSG_H
#define HAWK_TESTS_RANDOM_MSG_H

#include "base/rng.h"
#include "msg/msg.h"

#include <stdbool.h>

/* Fills *m with a wire message of that type. Its handles are the caller's (msg_drop). */
void random_msg(struct rng *r, enum msg_type type, struct msg *m);
struct job_desc *random_desc(struct rng *r);
/* Same type and content as far as it travels; peer is not compared. */
bool msg_equal(const struct msg *a, const struct msg *b);
/* args: the task arguments as well. */
bool desc_equal(const struct job_desc *a, const struct job_desc *b, bool args);

#endif
