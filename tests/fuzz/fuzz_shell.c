/* A value in a shell's text: the shell makes of it the same words as of a letter in its place, with the value's bytes
 * where the letter was, and no byte of it stands outside quotes where a shell would act on it. The first line makes the
 * text, of an alphabet in which quotes mean the same to every shell; the rest is the value. */
#include "base/check.h"
#include "template/template.h"
#include "tests/fuzz/lib/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 200
#define PLACE '\1' /* a place in the words of the text without values */

/* Words, each with a NUL behind it; a NUL does not stand in values. */
struct words {
    struct text text;
    bool whole; /* all quotes end */
};

/* Bytes that no shell acts on outside quotes. */
static bool is_plain(char c)
{
    return c == PLACE ||
           (c && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-,:%@", c));
}

/* Inside "...", from behind the first quote on. Returns what follows the last. */
static const char *read_double(const char *s, struct text *to)
{
    for (; *s && *s != '"'; s++) {
        CHECK(*s != '$' && *s != '`');
        if (*s == '\\' && s[1] && strchr("$`\"\\", s[1]))
            s++;
        text_add(to, s, 1);
    }
    return s;
}

/* Takes the text apart as POSIX says (2.2), and fails where a shell would do more than that. */
static struct words read_words(const char *s)
{
    struct words w = {.whole = true};
    bool in_word = false;

    for (; *s; s++) {
        in_word = in_word || *s != ' ';
        if (*s == ' ') {
            if (in_word)
                text_add(&w.text, "", 1);
            in_word = false;
        } else if (*s == '\'') {
            size_t len = strcspn(s + 1, "'");
            text_add(&w.text, s + 1, len);
            s += 1 + len;
        } else if (*s == '"') {
            s = read_double(s + 1, &w.text);
        } else if (*s == '\\') {
            CHECK(s[1] && s[1] != '\n');
            text_add(&w.text, ++s, 1);
        } else {
            CHECK(is_plain(*s));
            text_add(&w.text, s, 1);
        }
        if (!*s) {
            w.whole = false;
            break;
        }
    }
    text_add(&w.text, "", 1);
    return w;
}

/* The text with a byte for each place, which is read as a letter is. */
static void mark_places(const char *text, char *to)
{
    for (; *text; text++)
        if (strncmp(text, "{}", 2) == 0) {
            *to++ = PLACE;
            text++;
        } else {
            *to++ = *text;
        }
    *to = '\0';
}

static void compare(const struct words *text, const char *value, const struct words *filled)
{
    struct text expected = {0};

    for (size_t i = 0; i < text->text.len; i++)
        if (text->text.data[i] == PLACE)
            text_add(&expected, value, strlen(value));
        else
            text_add(&expected, &text->text.data[i], 1);
    CHECK(expected.len == filled->text.len);
    CHECK(!expected.data || memcmp(expected.data, filled->text.data, expected.len) == 0);
    text_free(&expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const pieces[] = {"a", "z", " ", "'", "\"", "{}", "{}", "/", "-", "sh -c ", ".", "7"};
    const uint8_t *line = memchr(data, '\n', size);
    char text[TEXT_MAX + 8] = "", marked[TEXT_MAX + 8], *value, why[TEMPLATE_WHY_MAX];
    size_t len = 0;

    if (!line)
        return 0;
    for (; data < line && len < TEXT_MAX; data++, size--)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s",
                                pieces[*data % (sizeof pieces / sizeof *pieces)]);
    size -= (size_t)(line + 1 - data);
    value = strndup((const char *)line + 1, size);
    CHECK(value);
    for (char *c = value; *c; c++)
        if (*c == PLACE)
            *c = '\2';
    mark_places(text, marked);
    struct words of_text = read_words(marked);
    const char *argv[] = {"sh", "-c", "--", text};
    struct template *t = template_command(4, argv, 1, true);
    struct template_input in = {.arg = value, .len = strlen(value), .columns = 1, .number = 1};
    size_t *at = calloc(template_count(t) + 1, sizeof *at);
    struct text filled = {0};
    CHECK(at);
    /* Where it refuses the value nothing runs. */
    if (of_text.whole && strchr(marked, PLACE) && template_fill(t, &in, 1 << 20, &filled, at, why) == 0) {
        struct words of_filled = read_words(filled.data + at[3]);
        CHECK(of_filled.whole);
        compare(&of_text, value, &of_filled);
        text_free(&of_filled.text);
    }
    text_free(&filled);
    text_free(&of_text.text);
    template_free(t);
    free(at);
    free(value);
    return 0;
}
