/* See near.h. */
#include "base/near.h"

#include <string.h>

#define LETTERS_MAX 3   /* that many changes make another word, */
#define LETTERS_SHORT 2 /* and in a word of at most WORD_SHORT letters that many */
#define WORD_SHORT 3
#define WORD_MAX 63

/* How many letters must change to turn one word into the other. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], n = strlen(b);

    if (strlen(a) >= WORD_MAX || n >= WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

struct near near_begin(const char *word)
{
    return (struct near){.word = word, .letters = strlen(word) > WORD_SHORT ? LETTERS_MAX : LETTERS_SHORT};
}

void near_look(struct near *n, const char *name)
{
    size_t letters = strncmp(name, n->word, strlen(n->word)) == 0 ? 0 : edit_distance(n->word, name);

    if (!*n->word || letters >= n->letters)
        return;
    n->letters = letters;
    n->name = name;
}
