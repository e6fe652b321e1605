/* Numbers that nobody can guess, from the kernel. Not for policy code, which has base/rng.h. */
#ifndef HAWK_BASE_ENTROPY_H
#define HAWK_BASE_ENTROPY_H

#include <stdint.h>

/* Any value. */
uint64_t entropy(void);
/* Any value but 0. */
uint64_t entropy_nonzero(void);

#endif
