/* What each user has at this dist, for limits. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

/* A user with unfinished jobs. */
struct dist_user {
    struct blob *name;
    uint32_t jobs;
    uint64_t tasks; /* of these jobs */
    uint64_t bytes; /* of their descriptions */
    UT_hash_handle hh;
};

/* Nobody has an empty name. */
static struct dist_user *user_find(const struct dist *d, const struct blob *name)
{
    struct dist_user *u;

    HASH_FIND(hh, d->users, name->data, name->len, u);
    return u;
}

void dist_user_add(struct dist *d, const struct job_desc *desc)
{
    struct dist_user *u;

    if (desc->user->len == 0)
        return;
    u = user_find(d, desc->user);
    if (!u) {
        u = xcalloc(1, sizeof *u);
        u->name = blob_ref(desc->user);
        HASH_ADD_KEYPTR(hh, d->users, u->name->data, u->name->len, u);
    }
    u->jobs++;
    u->tasks += desc->tasks;
    u->bytes += job_desc_bytes(desc);
}

static void user_free(struct dist *d, struct dist_user *u)
{
    HASH_DEL(d->users, u);
    blob_drop(u->name);
    free(u);
}

void dist_user_remove(struct dist *d, const struct job_desc *desc)
{
    struct dist_user *u = user_find(d, desc->user);

    if (!u)
        return;
    u->jobs--;
    u->tasks -= desc->tasks;
    u->bytes -= job_desc_bytes(desc);
    if (u->jobs == 0)
        user_free(d, u);
}

void dist_user_load(const struct dist *d, const struct blob *name, uint32_t *jobs, uint64_t *tasks,
                    uint64_t *bytes)
{
    const struct dist_user *u = user_find(d, name);

    *jobs = u ? u->jobs : 0;
    *tasks = u ? u->tasks : 0;
    *bytes = u ? u->bytes : 0;
}

void dist_users_check(const struct dist *d)
{
    uint64_t jobs = 0, tasks = 0, bytes = 0;

    for (const struct dist_user *u = d->users; u; u = u->hh.next) {
        CHECK(u->jobs > 0);
        jobs += u->jobs;
        tasks += u->tasks;
        bytes += u->bytes;
    }
    CHECK(jobs <= d->jobs_unfinished);
    CHECK(tasks <= d->tasks_unfinished);
    CHECK(bytes <= d->bytes_unfinished);
}

void dist_users_free(struct dist *d)
{
    while (d->users)
        user_free(d, d->users);
}
