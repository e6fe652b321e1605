/* See quote.h. */
#include "cli/quote.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_plain(const char *word)
{
    return *word && word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                      "_@%+=:,./-{}")] == '\0';
}

static void quote_word(FILE *f, const char *word)
{
    if (is_plain(word)) {
        fputs(word, f);
        return;
    }
    fputc('\'', f);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", f);
        else
            fputc(*word, f);
    fputc('\'', f);
}

char *quote_command(const struct strings *argv)
{
    char *text = NULL;
    size_t size = 0;
    const char *word = argv->data;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return xstrdup("");
    for (uint32_t i = 0; i < argv->n; i++, word += strlen(word) + 1) {
        fputs(i ? " " : "", f);
        quote_word(f, word);
    }
    fclose(f);
    return text;
}
