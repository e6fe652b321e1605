/* Contact, output mode and errors of user commands. */
#include "cli/session.h"

#include "base/account.h"
#include "net/login.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONTACT_FLAGS                                                                                        \
    FLAG(TEXT, struct common_options, dist, "dist", 0, "ADDR[,ADDR...]",                                     \
         "dists to ask, HOST:PORT or unix:PATH; default: $HAWK_DIST, else the cluster of "                   \
         "$HAWK_LOGIN, else the local `hawk up`"),                                                           \
        FLAG(TEXT, struct common_options, join_dir, "join-dir", 0, "DIR",                                    \
             "the directory of `hawk up --join-dir`, instead of --dist"),                                    \
        FLAG(TEXT, struct common_options, token_file, "token-file", 0, "FILE",                               \
             "file with the cluster's token; default: $HAWK_TOKEN_FILE, else the token in $HAWK_TOKEN"),     \
        FLAG_ABOVE_0(struct common_options, timeout_us, "timeout", 0, "TIME",                                \
                     "how long one node may take to answer each call, not the whole command; default: 30s")

const struct flag common_flags[] = {
    CONTACT_FLAGS,
    FLAG(CHOICE, struct common_options, output, "output", 'o', "table|json|quiet",
         "form of the output; default: table"),
    FLAG(BOOL, struct common_options, quiet, "quiet", 'q', NULL, "the same as --output quiet"),
    {0},
};

void session_warn_of_up(const char *command, const char *dir)
{
    char dists[LOGIN_DIST_MAX], socket[256];
    struct login l;
    if (login_find(&l) && login_dists(&l, dists, sizeof dists) &&
        client_finds_up(&(struct client_options){0}))
        say_warning(command, "your `hawk up` at %s goes before it: HAWK_LOGIN=%s names this cluster",
                    client_default_socket(socket, sizeof socket), dir);
}

struct client_options session_client(const struct common_options *o)
{
    return (struct client_options){
        .dist = o->dist, .join_dir = o->join_dir, .token_file = o->token_file, .timeout_us = o->timeout_us};
}

int session_open(struct session *s, const char *command, const struct common_options *o)
{
    const struct client_options options = session_client(o);
    *s = (struct session){.command = command};
    if (o->quiet || (o->output && strcmp(o->output, "quiet") == 0)) {
        s->mode = OUTPUT_QUIET;
        document_drop();
    } else if (o->output && strcmp(o->output, "json") == 0) {
        s->mode = OUTPUT_JSON;
    }
    int err = client_open(&s->client, &options);
    if (!err)
        return HAWK_EXIT_OK;
    session_failed(s);
    return err == HAWK_EINVALID ? HAWK_EXIT_USAGE : HAWK_EXIT_UNREACHABLE;
}

void session_close(struct session *s)
{
    client_close(s->client);
    s->client = NULL;
}

static void say_more(struct session *s)
{
    if (s->more)
        say_error(s->command, "and so of %u other job%s, up to %s", s->more, PLURAL(s->more),
                  JOB_TEXT(s->last));
    s->more = 0;
}

/* Whether the text says of this job what was said of another one. */
static bool said_before(struct session *s, const char *text)
{
    char now[sizeof s->said], id[JOB_ID_TEXT + 8];
    snprintf(id, sizeof id, "job %s", JOB_TEXT(s->job)); /* a number alone may be in an address */
    const char *at = strstr(text, id);
    if (job_eq(s->job, JOB_NONE) || s->mode == OUTPUT_JSON || !at)
        return false;
    snprintf(now, sizeof now, "%.*s%s", (int)(at - text), text, at + strlen(id));
    if (strcmp(now, s->said) == 0)
        return true;
    say_more(s);
    memcpy(s->said, now, sizeof now);
    return false;
}

int session_failed(struct session *s)
{
    const char *text = client_error(s->client);
    if (said_before(s, text)) {
        s->more++;
        s->last = s->job;
    } else {
        say_error(s->command, "%s", text);
    }
    return HAWK_EXIT_UNREACHABLE;
}

void session_warn(const struct session *s)
{
    if (*client_warning(s->client))
        say_warning(s->command, "%s", client_warning(s->client));
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
    int err = selection_resolve(jobs, s->client, user_name(command));
    session_warn(s);
    return err ? session_failed(s) : HAWK_EXIT_OK;
}

int session_each(const char *command, const struct common_options *o, int argc, char **argv,
                 const struct each_job *each)
{
    struct session s;
    struct selection jobs;
    int exit_code = session_select(&s, command, o, argc, argv, &jobs);
    bool opened = exit_code == HAWK_EXIT_OK;
    json_t *list = opened && s.mode == OUTPUT_JSON ? json_array() : NULL;
    for (uint32_t i = 0; opened && i < jobs.n; i++) {
        s.job = jobs.jobs[i];
        int result = each->job(each->arg, &s, jobs.jobs[i], list);
        exit_code = exit_code ? exit_code : result;
    }
    say_more(&s);
    if (list)
        document_print(json_pack("{s:o}", each->list, list));
    else if (opened && s.mode == OUTPUT_TABLE && jobs.n == 0 && each->none)
        puts(each->none);
    session_close(&s);
    selection_free(&jobs);
    return exit_code;
}

int session_command(int argc, char **argv, const struct each_job *each)
{
    struct common_options o = {0};
    int first = flags_parse(argv[0], NULL, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    return session_each(argv[0], &o, argc - first, argv + first, each);
}

const char *user_name(const char *command)
{
    static char name[LIMIT_NAME_BYTES + 1];
    struct account a;
    if (*name)
        return name;
    int err = account_of_uid(&a, getuid());
    if (err)
        snprintf(name, sizeof name, "%u", (unsigned)getuid());
    else
        snprintf(name, sizeof name, "%s", a.name);
    account_free(&a);
    if (err == HAWK_EUNAVAILABLE)
        say_warning(command,
                    "your name cannot be looked up on this machine: you count as user %s until it can", name);
    return name;
}
