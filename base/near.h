/* "Did you mean": which of some names a mistyped word comes nearest. */
#ifndef HAWK_BASE_NEAR_H
#define HAWK_BASE_NEAR_H

#include <stddef.h>

/* The best name so far is `name`, borrowed; NULL: none is near. Begin with near_begin(word). */
struct near {
    const char *word, *name;
    size_t letters; /* that turn one into the other; 0 also for a name that begins with the word */
};

struct near near_begin(const char *word);
void near_look(struct near *n, const char *name);

#endif
