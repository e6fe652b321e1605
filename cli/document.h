/* A command's messages on stderr and, with --output json, one JSON document on stdout, which contains the
 * messages too. A process runs one command and has one stdout. So there is one document and no handle. */
#ifndef HAWK_CLI_DOCUMENT_H
#define HAWK_CLI_DOCUMENT_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>

/* Names and types in JSON output keep their meaning under one schema; new ones may appear. */
#define JSON_SCHEMA "hawk.v1"

/* --output json was given: from now on a command that fails prints a document as well. */
void document_want(void);
bool document_wanted(void);

/* Writes "hawk: COMMAND: TEXT" to stderr, and {"message": "COMMAND: TEXT"} to the document's "errors". */
void say_error(const char *command, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* The same for "warnings": the command goes on, and does all the rest that was asked for. */
void say_warning(const char *command, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* The same for complete lines, like "FILE:3: ...": printed as they are, one error each. */
void say_lines(const char *lines);

/* Prints the document, with "schema" first and the messages so far last; takes the reference. On a terminal each member
 * has a line; elsewhere each element of a list that is in an element of a list has one, with all its members. */
void document_print(json_t *object);
/* Prints it on one line, for programs that read lines from a process that goes on. */
void document_print_line(json_t *object);
/* For a document that is printed piece by piece: its beginning, up to the first member's name, and its
 * end, which adds the messages. Between them come one or more members. */
void document_begin(void);
void document_finish(void);
/* None is printed from now on: standard output has something else, or nothing. */
void document_drop(void);
/* At the end of the command: prints the document of one that failed before it printed any. */
void document_end(bool failed);

#endif
