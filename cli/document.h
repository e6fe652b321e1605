/* What a command says: its messages on stderr and, with --output json, one JSON document on stdout, which has
 * the messages too. A process runs one command and has one stdout, so there is one document and no handle. */
#ifndef HAWK_CLI_DOCUMENT_H
#define HAWK_CLI_DOCUMENT_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>

/* Names and types in JSON output keep their meaning under one schema; new ones may appear. */
#define JSON_SCHEMA "hawk.v1"

/* --output json was given: from now on a command that fails ends in a document as well. */
void document_want(void);
bool document_wanted(void);

/* "hawk: COMMAND: TEXT" on stderr, and {"message": "COMMAND: TEXT"} in the document's "errors". */
void say_error(const char *command, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* The same in "warnings": the command goes on, and does what was asked but for this. */
void say_warning(const char *command, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* The same for lines that are complete, like "FILE:3: ...": printed as they are, one error each. */
void say_lines(const char *lines);

/* Prints the document, with "schema" first and the messages so far last; takes the reference. */
void document_print(json_t *object);
/* The same on one line, for who reads lines from a process that goes on. */
void document_print_line(json_t *object);
/* For a document printed piece by piece: its beginning, up to the first member's name; and its end, which
 * adds the messages. Between them comes one member or several. */
void document_begin(void);
void document_finish(void);
/* When the command is over: prints the document of one that failed before it printed any. */
void document_end(bool failed);

#endif
