/* Contact, output mode and errors of user commands. */
#include "client/session.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONTACT_FLAGS                                                                                        \
    FLAG(TEXT, struct common_options, dist, "dist", 0, "ADDR[,ADDR...]",                                     \
         "dists to ask, HOST:PORT or unix:PATH; default: $HAWK_DIST, else the local `hawk up`"),             \
        FLAG(TEXT, struct common_options, token_file, "token-file", 0, "FILE",                               \
             "file with the cluster's token; default: $HAWK_TOKEN_FILE, else the token in $HAWK_TOKEN"),     \
        FLAG(DURATION, struct common_options, timeout_us, "timeout", 0, "TIME",                              \
             "how long a node may take to answer; default: 30s")

const struct flag common_flags[] = {
    CONTACT_FLAGS,
    FLAG(CHOICE, struct common_options, output, "output", 'o', "table|json|quiet",
         "form of the output; default: table"),
    FLAG(BOOL, struct common_options, quiet, "quiet", 'q', NULL, "the same as --output quiet"),
    {0},
};

int session_open(struct session *s, const char *command, const struct common_options *o)
{
    struct hawk_options options = {.dist = o->dist, .token_file = o->token_file, .timeout_us = o->timeout_us};
    *s = (struct session){.command = command};
    if (o->quiet || (o->output && strcmp(o->output, "quiet") == 0))
        s->mode = OUTPUT_QUIET;
    else if (o->output && strcmp(o->output, "json") == 0)
        s->mode = OUTPUT_JSON;
    int err = hawk_open(&s->h, &options);
    if (!err)
        return HAWK_EXIT_OK;
    session_failed(s);
    return err == HAWK_EINVALID ? HAWK_EXIT_USAGE : HAWK_EXIT_UNREACHABLE;
}

void session_print(struct session *s, json_t *object)
{
    if (s->errors)
        json_object_set(object, "errors", s->errors);
    json_print(object);
    s->printed = true;
}

void session_close(struct session *s)
{
    if (s->errors && !s->printed)
        session_print(s, json_object());
    json_decref(s->errors);
    s->errors = NULL;
    hawk_close(s->h);
    s->h = NULL;
}

void session_say(struct session *s, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fflush(stdout); /* what went well comes first, also when both go to one file */
    fprintf(stderr, "hawk: %s: %s\n", s->command, text);
    if (s->mode != OUTPUT_JSON)
        return;
    if (!s->errors)
        s->errors = json_array();
    json_array_append_new(s->errors, json_text(text));
}

int session_failed(struct session *s)
{
    session_say(s, "%s", hawk_error(s->h));
    return HAWK_EXIT_UNREACHABLE;
}

void session_warn(const struct session *s)
{
    if (*hawk_warning(s->h))
        fprintf(stderr, "hawk: %s: %s\n", s->command, hawk_warning(s->h));
}

int session_select(struct session *s, const char *command, const struct common_options *o, int argc,
                   char **argv, struct selection *jobs)
{
    char why[200];
    *s = (struct session){.command = command};
    *jobs = (struct selection){0};
    if (selection_parse(jobs, argc, argv, why, sizeof why))
        return usage_error("%s: %s", command, why);
    int exit_code = session_open(s, command, o);
    if (exit_code)
        return exit_code;
    int err = selection_resolve(jobs, s->h, user_name());
    session_warn(s);
    return err ? session_failed(s) : HAWK_EXIT_OK;
}

const char *user_name(void)
{
    static char name[LIMIT_NAME_BYTES + 1];
    const struct passwd *pw = getpwuid(getuid());
    if (pw)
        snprintf(name, sizeof name, "%s", pw->pw_name);
    else
        snprintf(name, sizeof name, "%u", (unsigned)getuid());
    return name;
}
