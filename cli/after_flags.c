/* --after of commands that make a job: see after_flags.h. */
#include "cli/after_flags.h"

#include "base/check.h"
#include "cli/print.h"
#include "libhawk/select.h"

#include <stdio.h>
#include <string.h>

/* What --after names: jobs, and how all of them must have ended. An exit code after a message. */
static int read_after(const char *command, const char *text, struct selection *jobs, const char **when)
{
    char list[2048], why[256];
    struct after a;
    *when = strrchr(text, ':') ? strrchr(text, ':') : ":ok";
    int len = snprintf(list, sizeof list, "3.1%s", *when);
    bool fine = len < (int)sizeof list && after_parse(list, (size_t)len, &a) &&
                strchr(text, ':') == strrchr(text, ':');
    if (fine)
        len = snprintf(list, sizeof list, "%.*s", (int)strcspn(text, ":"), text);
    fine = fine && len < (int)sizeof list;
    int err = fine ? selection_parse(jobs, 1, &(char *){list}, why, sizeof why) : 0;
    if (err && strspn(list, "0123456789.,-") == strlen(list))
        return usage_error("%s: --after: %s", command, why);
    if (!fine || err || jobs->all ||
        (jobs->n == 0 && !jobs->last && a.when == AFTER_FAILED)) /* an empty list has ended well */
        return usage_error("%s: --after takes ids of jobs, as 3.17, 3.17-20, last or 3.17,last, and how they "
                           "must have ended, as "
                           "3.17:any or 3.17:failed, not '%s'; for different ends give --after again",
                           command, text);
    return 0;
}

int after_flags_check(const char *command, const struct flag_list *values)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < values->n; i++) {
        struct selection jobs = {0};
        const char *when;
        int exit_code = read_after(command, values->v[i], &jobs, &when);
        n += jobs.n + jobs.last;
        selection_free(&jobs);
        if (exit_code)
            return exit_code;
    }
    return n > LIMIT_AFTER ? usage_error("%s: a job runs after %u jobs at most", command, LIMIT_AFTER) : 0;
}

int after_flags_use(struct session *s, const struct flag_list *values, struct after_list *after)
{
    int err = 0;
    for (uint32_t i = 0; !err && i < values->n; i++) {
        struct selection jobs = {0};
        const char *when;
        CHECK(read_after(s->command, values->v[i], &jobs, &when) == 0);
        err = selection_resolve(&jobs, s->client, user_name(s->command));
        for (uint32_t k = 0; !err && k < jobs.n; k++) {
            char text[JOB_ID_TEXT + AFTER_TEXT];
            int len = snprintf(text, sizeof text, "%s%s", JOB_TEXT(jobs.jobs[k]), when);
            after_add(after, text, (size_t)len);
        }
        selection_free(&jobs);
    }
    return err ? session_failed(s) : HAWK_EXIT_OK;
}
