/* What one user may have at a dist or worker. Reaching a limit is an error for that user alone. Operators, and callers
 * whom nobody knows, have no limits of their own. */
#include "api/internal.h"

#include "base/mem.h"
#include "net/frames.h"
#include "net/log_kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define REFUSED_TEXT "audit: refused calls of user "

struct api_user {
    struct frames_bucket submits, moves; /* jobs that he submits, and that he moves here */
    uint32_t watches, reads;
    struct fair_queue queue; /* of his watches */
    struct fair_queue cancels;
    struct log_kind refused; /* lines of the audit log */
    UT_hash_handle hh;
    char *name;
    char refused_text[];
};

/* A user is remembered for as long as the process lives: there are no more than certificates and uids. */
static struct api_user *user_of(struct api *a, const struct caller *who)
{
    struct api_user *u;
    size_t len = strlen(who->name);
    if (who->by == CALLER_UNKNOWN || caller_may(who, SCOPE_OPERATE))
        return NULL;
    HASH_FIND(hh, a->users, who->name, len, u);
    if (u)
        return u;
    u = xcalloc(1, sizeof *u + sizeof REFUSED_TEXT + len);
    memcpy(u->refused_text, REFUSED_TEXT, sizeof REFUSED_TEXT);
    u->name = u->refused_text + sizeof REFUSED_TEXT - 1;
    memcpy(u->name, who->name, len);
    u->refused.what = u->refused_text;
    fair_queue_init(&u->queue);
    fair_queue_init(&u->cancels);
    HASH_ADD_KEYPTR(hh, a->users, u->name, len, u);
    return u;
}

int api_user_submits(struct api *a, const struct caller *who, const struct job_desc *job, bool moved,
                     char *why, size_t size)
{
    const struct api_limits *max = &a->roles.limits;
    struct api_user *u = user_of(a, who);
    uint32_t jobs;
    uint64_t tasks, bytes, more = job_desc_bytes(job);
    if (!u)
        return 0;
    dist_user_load(a->roles.dist, job->user, &jobs, &tasks, &bytes);
    if (!frames_take(moved ? &u->moves : &u->submits, (uint64_t)max->submit_rate * API_SUBMIT_BURST,
                     max->submit_rate, loop_now(a->loop)))
        snprintf(
            why, size,
            "the job was not accepted: user %s submits more than %u jobs a second, the limit of one user "
            "(dist.user_submit_rate): submit less at a time",
            u->name, max->submit_rate);
    else if (jobs >= max->jobs_max)
        snprintf(
            why, size,
            "the job was not accepted: user %s has %u unfinished jobs at this dist, the limit of one user "
            "(dist.user_jobs_max): wait until some have ended",
            u->name, jobs);
    else if (job->tasks > max->tasks_max || tasks > max->tasks_max - job->tasks)
        snprintf(
            why, size,
            "the job was not accepted: with it user %s would have more than %u tasks in unfinished jobs at "
            "this dist, the limit of one user (dist.user_tasks_max): wait until some have ended",
            u->name, max->tasks_max);
    else if (more > max->bytes_max || bytes > max->bytes_max - more)
        snprintf(
            why, size,
            "the job was not accepted: with it the unfinished jobs of user %s would fill more than %" PRIu64
            " bytes of this dist's memory and journal, the limit of one user (dist.user_journal_max): wait "
            "until some have ended",
            u->name, max->bytes_max);
    else
        return 0;
    return HAWK_ELIMIT;
}

/* One more of what is *n already. False: it has failed the call. */
static bool take_one(struct rpc_call *c, const struct api_user *u, uint32_t *n, uint32_t max,
                     const char *limit)
{
    if (*n >= max) {
        api_fail(c, HAWK_ELIMIT, "user %s has %u %s: end some", u->name, *n, limit);
        return false;
    }
    ++*n;
    return true;
}

bool api_user_watches(struct api *a, struct rpc_call *c, struct api_user **user)
{
    struct api_user *u = *user = user_of(a, rpc_caller(c));
    return !u || take_one(c, u, &u->watches, a->roles.limits.watches_max,
                          "watches at this dist, the limit of one user (dist.user_watches_max)");
}

void api_user_unwatches(struct api_user *user)
{
    if (user)
        user->watches--;
}

struct fair_queue *api_user_queue(struct api *a, struct api_user *user)
{
    return user ? &user->queue : &a->unlimited;
}

struct fair_queue *api_user_cancels(struct api *a, const struct caller *who)
{
    struct api_user *u = user_of(a, who);
    return u ? &u->cancels : &a->unlimited_cancels;
}

bool api_user_reads(struct api *a, struct rpc_call *c, struct api_user **user)
{
    struct api_user *u = *user = user_of(a, rpc_caller(c));
    return !u ||
           take_one(c, u, &u->reads, a->roles.limits.reads_max,
                    "outputs that are read at this worker, the limit of one user (worker.user_reads_max)");
}

void api_user_unreads(struct api_user *user)
{
    if (user)
        user->reads--;
}

/* ---- The audit log ---- */

void api_user_audit(struct api *a, struct rpc_call *c, enum api_method method)
{
    const char *path = api_methods[method].path;
    struct api_user *u;

    if (call_scope(path) == SCOPE_READ)
        return;
    rpc_audit(c, "%s", path);
    u = user_of(a, rpc_caller(c));
    if (!u)
        return;
    rpc_audit_among(c, &u->refused);
    if (!loop_timer_is_set(&a->audit_timer))
        loop_timer_set(a->loop, &a->audit_timer, loop_now(a->loop) + LOG_KIND_EVERY_US);
}

static void on_audit_timer(void *arg)
{
    struct api *a = arg;
    struct api_user *u, *next;
    bool more = false;

    HASH_ITER(hh, a->users, u, next)
        more |= log_kind_sweep(&u->refused, loop_now(a->loop));
    if (more)
        loop_timer_set(a->loop, &a->audit_timer, loop_now(a->loop) + LOG_KIND_EVERY_US);
}

void api_users_init(struct api *a) { loop_timer_init(&a->audit_timer, on_audit_timer, a); }

void api_users_free(struct api *a)
{
    struct api_user *u, *next;

    loop_timer_clear(a->loop, &a->audit_timer);
    HASH_ITER(hh, a->users, u, next) {
        HASH_DEL(a->users, u);
        free(u);
    }
}
