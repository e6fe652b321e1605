/* Messages and the JSON document: see document.h. */
#include "cli/document.h"

#include "base/check.h"
#include "cli/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_MAX 2048

static struct {
    bool wanted, printed;
    json_t *errors, *warnings;
} document;

void document_want(void) { document.wanted = true; }
bool document_wanted(void) { return document.wanted; }

/* A message is an object, so that it can have a code or a job's id beside its text one day. */
static void keep_message(json_t **list, const char *text)
{
    if (!document.wanted || document.printed)
        return;
    if (!*list)
        *list = json_array();
    json_array_append_new(*list, json_pack("{s:o}", "message", json_text(text)));
}

static void say_message(json_t **list, const char *command, const char *fmt, va_list args)
{
    char text[MESSAGE_MAX];
    int n = snprintf(text, sizeof text, "%s%s", command ? command : "", command ? ": " : "");
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    fflush(stdout); /* output comes before errors, also when both go to one file */
    fprintf(stderr, "hawk: %s\n", clean_text((char[MESSAGE_MAX]){0}, MESSAGE_MAX, text));
    keep_message(list, text);
}

void say_error(const char *command, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_message(&document.errors, command, fmt, args);
    va_end(args);
}

void say_warning(const char *command, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_message(&document.warnings, command, fmt, args);
    va_end(args);
}

void say_lines(const char *lines)
{
    char text[MESSAGE_MAX];
    for (size_t len; *lines; lines += len + (lines[len] == '\n')) {
        len = strcspn(lines, "\n");
        snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), lines);
        fprintf(stderr, "%s\n", clean_text((char[MESSAGE_MAX]){0}, MESSAGE_MAX, text));
        keep_message(&document.errors, text);
    }
}

static void move_list(json_t *object, const char *name, json_t **list)
{
    if (*list)
        json_object_set_new(object, name, *list);
    *list = NULL;
}

#define LINE_DEPTH 4 /* of an element of a list in an element of a list of the document: a job's task, say */

/* As JSON_INDENT(2), but what is at LINE_DEPTH has a line of its own: a job may have a million tasks. */
static void write_parts(const json_t *v, int depth)
{
    size_t n = json_is_object(v) ? json_object_size(v) : json_array_size(v);

    if (n == 0 || depth == LINE_DEPTH) {
        json_write(v, stdout, JSON_ENCODE_ANY);
        return;
    }
    putchar(json_is_object(v) ? '{' : '[');
    void *at = json_object_iter((json_t *)v);
    for (size_t i = 0; i < n; i++) {
        printf("%s\n%*s", i ? "," : "", 2 * (depth + 1), "");
        if (at) {
            json_t *name = json_string(json_object_iter_key(at));
            json_write(name, stdout, JSON_ENCODE_ANY);
            json_decref(name);
            fputs(": ", stdout);
        }
        write_parts(at ? json_object_iter_value(at) : json_array_get(v, i), depth + 1);
        at = at ? json_object_iter_next((json_t *)v, at) : NULL;
    }
    printf("\n%*s%c", 2 * depth, "", json_is_object(v) ? '}' : ']');
}

/* lines: not all of it on one. */
static void print_document(json_t *object, bool lines)
{
    json_t *whole = json_pack("{s:s}", "schema", JSON_SCHEMA);
    CHECK(whole && object);
    json_object_update(whole, object);
    move_list(whole, "warnings", &document.warnings);
    move_list(whole, "errors", &document.errors);
    if (!lines)
        json_write(whole, stdout, JSON_COMPACT);
    else if (isatty(STDOUT_FILENO))
        json_write(whole, stdout, JSON_INDENT(2));
    else
        write_parts(whole, 0);
    putchar('\n');
    json_decref(whole);
    json_decref(object);
    document.printed = true;
}

void document_print(json_t *object) { print_document(object, true); }
void document_print_line(json_t *object) { print_document(object, false); }

void document_begin(void) { printf("{\n  \"schema\": \"%s\",\n  ", JSON_SCHEMA); }

static void finish_list(const char *name, json_t **list)
{
    if (*list) {
        printf(",\n  \"%s\": ", name);
        json_write(*list, stdout, JSON_COMPACT);
        json_decref(*list);
    }
    *list = NULL;
}

void document_finish(void)
{
    finish_list("warnings", &document.warnings);
    finish_list("errors", &document.errors);
    puts("\n}");
    document.printed = true;
}

void document_drop(void) { document.wanted = false; }

void document_end(bool failed)
{
    if (!document.wanted || document.printed || !failed)
        return;
    if (!document.errors) /* a daemon's log, say */
        keep_message(&document.errors, "failed: standard error tells why");
    document_print(json_object());
}
