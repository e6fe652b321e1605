/* What every user command shares: contact and output flags, the client made from them, and its errors. */
#ifndef HAWK_CLI_SESSION_H
#define HAWK_CLI_SESSION_H

#include "cli/command.h"
#include "cli/document.h"
#include "cli/print.h"
#include "libhawk/client.h"
#include "libhawk/select.h"

enum output_mode { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_QUIET };

/* First member of the options struct of every user command, so that their common flags can be one table. */
struct common_options {
    const char *dist, *token_file, *output;
    int64_t timeout_us;
    bool quiet;
};

extern const struct flag common_flags[]; /* --dist, --token-file, --timeout, --output, --quiet */

struct session {
    struct client *client;
    const char *command;
    enum output_mode mode;
};

/* HAWK_EXIT_OK, or another exit code after a message. session_close in either case. */
int session_open(struct session *s, const char *command, const struct common_options *o);
void session_close(struct session *s);
/* Complains of what the last call met. Returns the exit code for it. */
int session_failed(const struct session *s);
/* Warns of what the last call left out; before the document is printed, which is to have it. */
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
