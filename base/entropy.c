/* See entropy.h. */
#include "base/entropy.h"

#include <sys/random.h>

uint64_t entropy(void)
{
    uint64_t v;

    while (getrandom(&v, sizeof v, 0) != sizeof v)
        ;
    return v;
}

uint64_t entropy_nonzero(void)
{
    uint64_t v;

    do
        v = entropy();
    while (v == 0);
    return v;
}
