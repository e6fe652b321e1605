/* "Did you mean": which of some names a mistyped word comes nearest. */
#ifndef HAWK_BASE_NEAR_H
#define HAWK_BASE_NEAR_H

#include <stddef.h>

/* Begin with near_begin(word), then show it every name. `name` is then the best name (borrowed), or NULL
 * when none is near. */
struct near {
    const char *word, *name;
    /* Letters to change to turn one into the other; 0 also for a name that begins with the word. */
    size_t letters;
};

struct near near_begin(const char *word);
void near_look(struct near *n, const char *name);

#endif
