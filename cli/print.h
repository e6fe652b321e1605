/* What commands print: aligned tables, JSON, durations. */
#ifndef HAWK_CLI_PRINT_H
#define HAWK_CLI_PRINT_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 16

/* Rows of cells; every column is as wide as its widest cell. It starts zeroed. */
struct text_table {
    char **cells;
    uint32_t n, cap;
    uint32_t columns;
    struct text_column {
        bool right, spare, whole, prose, tailed, first_out;
    } column[TABLE_COLUMNS_MAX];
};

/* Names the columns, NULL-terminated. Where lines are too wide for the terminal, texts are cut in the middle, and then
 * columns left out. Signs before a name:
 *   >  numbers: aligned right, and never cut
 *   !  never cut, since people paste it back: a job's id
 *   .  prose: cut at its end
 *   :  cut before other texts, as prose is, but in the middle: a task's input
 *   ?  left out where the terminal is too narrow, the last such column first; others after them, but never the first
 *   -  left out before that, rather than that a text but prose is cut */
void table_columns(struct text_table *t, ...) __attribute__((sentinel));
/* Adds the next cell, from left to right and row by row, with its text tamed. */
void table_cell(struct text_table *t, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* Prints to stdout, and frees. Lines fit a terminal, or what $COLUMNS says. Without rows it prints only the head, or
 * `empty` when that is not NULL. */
void table_print(struct text_table *t, const char *empty);
/* Prints a line about a table that was printed, to stderr: who reads the table in a pipe gets rows alone. */
void table_note(const char *fmt, ...) HAWK_PRINTF(1, 2);

void table_free(struct text_table *t);

#define DURATION_TEXT 24
/* "1.25s"; "-" when negative: not yet. */
const char *duration_text(char buf[DURATION_TEXT], int64_t us);
/* duration_text in a buffer of its own. */
#define DURATION(us) duration_text((char[DURATION_TEXT]){0}, (us))

#define SIZE_TEXT 24
/* "1.25GiB"; "-" if it is not above 0: not known. */
const char *known_size_text(char buf[SIZE_TEXT], int64_t bytes);
/* The same, and of a duration, in buffers of their own. */
#define KNOWN_SIZE(bytes) known_size_text((char[SIZE_TEXT]){0}, (bytes))
#define KNOWN_DURATION(us) duration_text((char[DURATION_TEXT]){0}, (us) > 0 ? (us) : -1)

#define CLOCK_TEXT 32
/* "2026-11-25T15:02:01Z"; at_s: seconds since 1970. */
const char *utc_text(char buf[CLOCK_TEXT], int64_t at_s);
/* "2026-11-25 16:02:01", the local time us from now (below 0: before); utc: as utc_text(). */
const char *clock_text(char buf[CLOCK_TEXT], int64_t us, bool utc);

/* Whether stderr is a terminal on which a line can be written anew; TERM=dumb is none. */
bool stderr_redraws(void);

/* Writes text, of more than `width` columns of a terminal without the middle, or (prose) the end: "quarter...final".
 * Beginnings and ends tell names apart. */
const char *text_cut(char *buf, size_t size, const char *text, int width, bool prose);

/* Makes text from the network safe for a terminal: utf8_tame (base/utf8.h). The text ends in "...",
 * between characters, if it did not fit. */
const char *clean_text(char *buf, size_t size, const char *text);
#define CLEAN(text) clean_text((char[160]){0}, 160, (text))

/* A task's input as a list shows it: tamed, a blank for each NUL between its values, and of more than INPUT_SHOWN
 * characters without the middle. */
#define INPUT_SHOWN 80
#define INPUT_TEXT (4 * INPUT_SHOWN + 1)
const char *input_text(char buf[INPUT_TEXT], const void *input, size_t len);

/* ", 4.2/s, 1m 3s left", of tasks that ended within took_us. left 0: none is left, or nobody knows how many; they
 * take least_us in any case. "" as long as none has ended. */
#define SPEED_TEXT 64
const char *speed_text(char buf[SPEED_TEXT], uint64_t ended, int64_t took_us, uint64_t left,
                       int64_t least_us);

#define PLURAL(n) ((n) == 1 ? "" : "s")
/* Around a line on a terminal that is drawn over and over: one wider than the terminal is cut, not
 * wrapped, or the next would not be drawn over it. */
#define PROGRESS_BEGIN "\r\033[K\033[?7l"
#define PROGRESS_END "\033[?7h"
#define PLAIN_PROGRESS_US US_PER_S /* between two lines where lines cannot be drawn over */

/* Makes a JSON string. Bytes that are not UTF-8 become U+FFFD. Never NULL. */
json_t *json_text(const char *text);
json_t *json_bytes(const char *data, size_t len);
/* What the system takes for bytes (arguments, variables, paths): a string, or where they are not UTF-8 an object
 * {"base64": ...}. Never NULL. */
json_t *json_data(const void *data, size_t len);
/* Writes it as json_dumpf does, but escapes characters on which a terminal acts (base/utf8.h). */
void json_write(const json_t *json, FILE *f, size_t form);
/* Encodes bytes in base64. */
json_t *json_base64(const void *data, size_t len);

#endif
