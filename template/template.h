/* Replacement strings, as GNU parallel has them: {} {.} {/} {//} {/.} {#} {2} {2/.} in a job's command, and what a
 * task puts in their places. Text in, argv out: no I/O, no state.
 *
 * A task's argument is its values, one per column, with a NUL between two. In the text after `-c` of a shell each value
 * is quoted for where it stands, so that the shell sees its bytes and never runs them. Everywhere else the value's
 * bytes stand as they are. */
#ifndef HAWK_TEMPLATE_TEMPLATE_H
#define HAWK_TEMPLATE_TEMPLATE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEMPLATE_WHY_MAX 200u

/* What a place takes from the value. */
enum place_form {
    PLACE_WHOLE, /* {} */
    PLACE_STEM,  /* {.}: without the extension of its last component */
    PLACE_BASE,  /* {/}: the last component */
    PLACE_DIR,   /* {//}: all before it; "." where there is nothing */
    PLACE_BASE_STEM /* {/.} */,
    PLACE_NUMBER /* {#}: the task's number, from 1 on */
};

struct place {
    uint8_t form;    /* enum place_form */
    uint16_t column; /* from 1 on; 0: all, with a blank between two */
};

/* One task's input. */
struct template_input {
    const char *
        arg; /* columns values with a NUL between two; missing ones are empty. NULL: none, nothing is replaced */
    size_t len;
    uint32_t columns; /* 0 counts as 1: the argument is one value */
    uint64_t number;  /* what {#} stands for */
};

/* A text that grows; zeros are an empty one. */
struct text {
    char *data;
    size_t len, cap;
};
void text_add(struct text *t, const void *data, size_t n);
void text_free(struct text *t);

/* Reads the place that begins at s, which is "{". Returns its length; 0: it is none, and stays as it is. A number
 * beyond `columns` is none. */
size_t place_read(const char *s, uint32_t columns, struct place *p);
/* Whether a place stands in the text. */
bool place_stands_in(const char *text, uint32_t columns);
/* Whether an output file's name has each task's index or whole input, together or by columns: then no two tasks share
 * the file. Without inputs places in it stand for nothing. */
bool place_tells_tasks_apart(const char *name, bool inputs, uint32_t columns);
/* Adds the bytes that a task puts there. */
void place_fill(struct text *to, const struct place *p, const struct template_input *in);
/* The value of a column, from 1 on; *len bytes. */
const char *input_column(const struct template_input *in, uint32_t column, size_t *len);
/* The whole input in one text, with a blank between two values: what {} stands for, and HAWK_INPUT has. */
void input_joined(struct text *to, const struct template_input *in);

/* A command, or another list of words, with its places found. Immutable. */
struct template;

/* A command: the text after `-c` of sh, bash, dash, ksh or zsh, also behind env, nice and timeout, is read as the
 * shell will read it. With `append` the values follow a command in which no place stands. The words are borrowed for as
 * long as the template lives. */
struct template *template_command(uint32_t argc, const char *const *argv, uint32_t columns, bool append);
/* Words without a shell's text: directories, NAME=VALUE. */
struct template *template_words(uint32_t n, const char *const *words, uint32_t columns);
void template_free(struct template *t); /* NULL is fine */

/* The program that will read a value as code of its own where a place stands: "ssh", "eval", "python3 -c". NULL:
 * none. */
const char *template_reader(const struct template *t);

/* How many words are filled: one more per column where values are appended. */
uint32_t template_count(const struct template *t);

/* Writes the words, each with a NUL behind it, into *to, and where each begins (offsets in to->data) into at[], which
 * has room for template_count() of them. HAWK_EINVALID, and why (TEMPLATE_WHY_MAX bytes): a value may not stand in one
 * of its places. HAWK_ETOO_LARGE: more than `limit` bytes. */
HAWK_MUST_USE int template_fill(const struct template *t, const struct template_input *in, size_t limit,
                                struct text *to, size_t *at, char why[TEMPLATE_WHY_MAX]);

#endif
