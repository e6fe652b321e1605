/* What the programs that call libhawk from outside share: their client, and a check that ends them. */
#ifndef HAWK_TESTS_LIBHAWK_MUST_H
#define HAWK_TESTS_LIBHAWK_MUST_H

#include <hawk.h>
#include <stdio.h>
#include <stdlib.h>

#define BOUND 60000000 /* us */

static struct hawk_client *c;

#define MUST(cond)                                                                                           \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #cond, hawk_client_error(c));            \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
