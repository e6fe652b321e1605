/* hawk hold, release, resubmit */
#include "cli/after_flags.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>

/* ---- hold, release ---- */

static int hold_job(struct session *s, job_id_t job, json_t *list, bool release)
{
    const char *id = JOB_TEXT(job);
    bool ended = false;
    if (client_hold(s->client, job, release, &ended))
        return session_failed(s);
    json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "job", id, "held", (int)(!release && !ended),
                                          "already_ended", (int)ended));
    if (s->mode == OUTPUT_TABLE)
        printf("%s %s\n", id, ended ? "had already ended" : release ? "released" : "held");
    return HAWK_EXIT_OK;
}

static int hold_one(void *arg, struct session *s, job_id_t job, json_t *list)
{
    return hold_job(s, job, list, false);
}
static int release_one(void *arg, struct session *s, job_id_t job, json_t *list)
{
    return hold_job(s, job, list, true);
}

int hold_main(int argc, char **argv)
{
    return session_command(argc, argv,
                           &(struct each_job){.list = "jobs", .none = "nothing to hold", .job = hold_one});
}

int release_main(int argc, char **argv)
{
    return session_command(
        argc, argv, &(struct each_job){.list = "jobs", .none = "nothing to release", .job = release_one});
}

/* ---- resubmit ---- */

struct resubmit_options {
    struct common_options common;
    bool failed;
    struct flag_list after;
    struct after_list found; /* what `after` names, once the first job is at hand */
    bool sought;
    int exit_code; /* of that */
};

const struct flag resubmit_flags[] = {
    FLAG(BOOL, struct resubmit_options, failed, "failed", 0, NULL,
         "only the tasks that are not done: the others count as done in the new job as well"),
    FLAG(LIST, struct resubmit_options, after, "after", 0, AFTER_FLAG_VALUE, AFTER_FLAG_HELP),
    {0},
};

/* The old job's predecessors do not count. */
static void warn_of_predecessors(struct session *s, job_id_t job, job_id_t again)
{
    const struct api_get_job_request r = {.job = job, .spec = true};
    struct api_get_job_reply reply;
    char list[LIMIT_AFTER * (AFTER_TEXT + 1)] = "";
    if (client_get_job(s->client, &r, &reply))
        return;
    for (uint32_t i = 0; reply.spec && i < reply.spec->after.n && i < LIMIT_AFTER; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", at ? "," : "",
                 after_format((char[AFTER_TEXT]){0}, &reply.spec->after.v[i]));
    }
    if (*list)
        say_warning(s->command, "job %s ran after %s; job %s waits for no job: --after ID lets it wait",
                    JOB_TEXT(job), list, JOB_TEXT(again));
    api_free(&api_get_job_reply_type, &reply);
}

static int resubmit_one(void *arg, struct session *s, job_id_t job, json_t *list)
{
    struct resubmit_options *o = arg;
    struct api_submit_reply reply;
    if (!o->sought) /* before `last` is one of the new jobs */
        o->exit_code = after_flags_use(s, &o->after, &o->found);
    o->sought = true;
    if (o->exit_code)
        return o->exit_code;
    if (client_rerun(s->client, job, o->failed, &o->found, &reply))
        return session_failed(s);
    json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "job", JOB_TEXT(reply.job), "of", JOB_TEXT(job),
                                          "state", show_job_state(reply.state)));
    if (s->mode != OUTPUT_JSON)
        printf("%s\n", JOB_TEXT(reply.job));
    if (!o->after.n)
        warn_of_predecessors(s, job, reply.job);
    return HAWK_EXIT_OK;
}

int resubmit_main(int argc, char **argv)
{
    struct resubmit_options o = {0};
    int first = flags_parse(argv[0], resubmit_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    int exit_code = command_may_print(argv[0]);
    if (!exit_code)
        exit_code = after_flags_check(argv[0], &o.after);
    if (!exit_code)
        exit_code = session_each(argv[0], &o.common, argc - first, argv + first,
                                 &(struct each_job){.list = "jobs", .job = resubmit_one, .arg = &o});
    after_free(&o.found);
    flag_list_free(&o.after);
    return exit_code;
}
