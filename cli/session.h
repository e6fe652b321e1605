/* What all user commands share: the flags for contact and output, the client made from them, and its
 * errors. */
#ifndef HAWK_CLI_SESSION_H
#define HAWK_CLI_SESSION_H

#include "cli/command.h"
#include "cli/document.h"
#include "cli/print.h"
#include "libhawk/client.h"
#include "libhawk/select.h"

enum output_mode { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_QUIET };

/* The first member of every user command's options struct, so that the common flags can be one table. */
struct common_options {
    const char *dist, *join_dir, *token_file, *output;
    int64_t timeout_us;
    bool quiet;
};

extern const struct flag common_flags[]; /* --dist, --join-dir, --token-file, --timeout, --output, --quiet */
/* Of a client that these flags describe. */
struct client_options session_client(const struct common_options *o);

struct session {
    struct client *client;
    const char *command;
    enum output_mode mode;
    job_id_t job;   /* whose turn it is in session_each(); JOB_NONE: none */
    char said[640]; /* of session_failed(): the last text, without that job's id */
    uint32_t more;  /* jobs of which that is true as well, and the last one */
    job_id_t last;
};

/* Opens a session. HAWK_EXIT_OK, or another exit code after a message. Call session_close in either case. */
int session_open(struct session *s, const char *command, const struct common_options *o);
void session_close(struct session *s);
/* Reports the last call's error, and returns the exit code for it. What is true of many jobs of session_each() is said
 * once, with their number (in JSON: of each). */
int session_failed(struct session *s);
/* Warns of what the last call left out. Call it before the document is printed, which contains the
 * warning. */
void session_warn(const struct session *s);

/* Warns, before the document is printed, if commands ask this user's `hawk up` and not the cluster of his login, in
 * dir. */
void session_warn_of_up(const char *command, const char *dir);

/* Parses selectors, opens the session and resolves them: the beginning of most commands on jobs. If it
 * returns anything but HAWK_EXIT_OK, it has printed a message. Call session_close and selection_free in
 * either case. */
int session_select(struct session *s, const char *command, const struct common_options *o, int argc,
                   char **argv, struct selection *jobs);

/* What a command does with each of the jobs that were selected. */
struct each_job {
    const char *list; /* the name of the JSON document's list */
    const char *none; /* printed as a table if no job was selected; NULL: nothing is */
    /* Returns an exit code; the other jobs have their turn after any. `list` is NULL unless JSON is asked for. */
    int (*job)(void *arg, struct session *s, job_id_t job, json_t *list);
    void *arg;
};
/* session_select(), then each job, then the JSON document. Returns the first exit code that is not HAWK_EXIT_OK. */
int session_each(const char *command, const struct common_options *o, int argc, char **argv,
                 const struct each_job *each);
/* The whole of a command whose flags are the common ones. */
int session_command(int argc, char **argv, const struct each_job *each);

/* The user's name by the system's database, else the number; static. That a look-up failed is said once. */
const char *user_name(const char *command);
/* A job id's text in a buffer of its own. */
#define JOB_TEXT(id) job_id_format((char[JOB_ID_TEXT]){0}, (id))

#endif
