/* hawk hold, release, resubmit */
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/show.h"

#include <stdlib.h>

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
};

const struct flag resubmit_flags[] = {
    FLAG(BOOL, struct resubmit_options, failed, "failed", 0, NULL,
         "only the tasks that are not done: the others count as done in the new job as well"),
    {0},
};

static int resubmit_one(void *arg, struct session *s, job_id_t job, json_t *list)
{
    const struct resubmit_options *o = arg;
    struct api_submit_reply reply;
    if (client_rerun(s->client, job, o->failed, &reply))
        return session_failed(s);
    json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "job", JOB_TEXT(reply.job), "of", JOB_TEXT(job),
                                          "state", show_job_state(reply.state)));
    if (s->mode != OUTPUT_JSON)
        printf("%s\n", JOB_TEXT(reply.job));
    return HAWK_EXIT_OK;
}

int resubmit_main(int argc, char **argv)
{
    struct resubmit_options o = {0};
    int first = flags_parse(argv[0], resubmit_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    int exit_code = command_may_print(argv[0]);
    if (exit_code)
        return exit_code;
    return session_each(argv[0], &o.common, argc - first, argv + first,
                        &(struct each_job){.list = "jobs", .job = resubmit_one, .arg = &o});
}
