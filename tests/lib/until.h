/* Waiting for an event on a loop, with a bound, instead of sleeping. */
#ifndef HAWK_TESTS_LIB_UNTIL_H
#define HAWK_TESTS_LIB_UNTIL_H

#include "net/loop.h"

/* Far above what anything takes, so that a loaded machine fails no test. */
#define UNTIL_US (10 * US_PER_S)

/* Turns the loop until cond holds; fails the test when it never does. */
#define until(loop, cond)                                                                                    \
    do {                                                                                                     \
        int64_t until_deadline = loop_now(loop) + UNTIL_US;                                                  \
        while (!(cond)) {                                                                                    \
            if (loop_now(loop) >= until_deadline)                                                            \
                fail_msg("never happened: %s", #cond);                                                       \
            loop_once(loop, until_deadline);                                                                 \
        }                                                                                                    \
    } while (0)

#endif
