/* What every user command shares: contact and output flags, the client made from them, and its errors. */
#ifndef HAWK_CLIENT_SESSION_H
#define HAWK_CLIENT_SESSION_H

#include "client/command.h"
#include "client/hawk.h"
#include "client/print.h"
#include "client/select.h"

enum output_mode { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_QUIET };

/* First member of the options struct of every user command, so that their common flags can be one table. */
struct common_options {
    const char *dist, *token_file, *output;
    int64_t timeout_us;
    bool quiet;
};

extern const struct flag common_flags[]; /* --dist, --token-file, --timeout, --output, --quiet */

struct session {
    struct hawk *h;
    const char *command;
    enum output_mode mode;
    json_t *errors; /* OUTPUT_JSON: messages for the document; NULL: none */
    bool printed;   /* OUTPUT_JSON: the document */
};

/* HAWK_EXIT_OK, or another exit code after a message. session_close in either case. */
int session_open(struct session *s, const char *command, const struct common_options *o);
/* In JSON there is one document, also of a command that failed: what session_print has not printed yet. */
void session_close(struct session *s);
/* Prints what the last call met, or left out, to stderr. Returns the exit code for err. */
int session_failed(struct session *s);
/* A message of our own, to stderr and, in JSON, into the document's "errors". */
void session_say(struct session *s, const char *fmt, ...) HAWK_PRINTF(2, 3);
/* Prints the JSON document with the errors so far; takes the reference. */
void session_print(struct session *s, json_t *object);
void session_warn(const struct session *s);

/* Parses selectors, opens the session and resolves them: what most commands on jobs start with. On anything
 * but HAWK_EXIT_OK a message has been printed. session_close and selection_free in either case. */
int session_select(struct session *s, const char *command, const struct common_options *o, int argc,
                   char **argv, struct selection *jobs);

/* Who runs this, by the system's user database, else by number; static. */
const char *user_name(void);
/* A job id's text in a buffer of its own. */
#define JOB_TEXT(id) job_id_format((char[JOB_ID_TEXT]){0}, (id))

#endif
