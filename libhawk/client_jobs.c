/* Listing the jobs of all dists, and of central, as one list. */
#include "libhawk/client_impl.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first place in text of the len bytes of part. */
static const char *find_part(const char *text, const char *part, size_t len)
{
    while (strncmp(text, part, len) != 0 && *text)
        text++;
    return strncmp(text, part, len) == 0 ? text : NULL;
}

/* Whether a text is the wanted one, or one that a table shows so: "..." stands for what did not fit. A text that was
 * cut twice has it twice, perhaps with more dots. */
static bool text_fits(const char *wanted, const char *text)
{
    const char *gap = strstr(wanted, "...");
    if (strcmp(wanted, text) == 0)
        return true;
    if (!gap || strncmp(wanted, text, (size_t)(gap - wanted)) != 0)
        return false;
    text += gap - wanted;
    for (;;) {
        const char *part = gap + strspn(gap, ".");
        gap = strstr(part, "...");
        size_t len = gap ? (size_t)(gap - part) : strlen(part), left = strlen(text);
        if (!gap)
            return len <= left && strcmp(part, text + left - len) == 0;
        text = find_part(text, part, len);
        if (!text)
            return false;
        text += len;
    }
}

/* you: this client's name as the server knows it; "": it does not. */
static bool query_keeps(const struct client_job_query *q, const char *you, const struct api_job *j)
{
    uint32_t states = q->states ? q->states : UINT32_MAX;
    const char *user = q->mine && *you ? you : q->user;
    bool held = j->held && !job_state_final(j->state); /* some of its tasks may run */
    return (states & (1u << j->state | (uint32_t)held << JOB_HELD)) != 0 &&
           (!q->name || text_fits(q->name, j->name)) && (!user || text_fits(user, j->user));
}

struct job_list {
    struct api_job *v;
    uint32_t n, cap;
};

/* Adds one dist's jobs, page by page, as many as the query wants and one more, which shows that there are
 * more. */
static int list_pages(struct client *client, struct channel *ch, const struct client_job_query *q,
                      struct job_list *to)
{
    bool filtered = q->states || q->name || q->user;
    struct api_list_jobs_request r = {
        .limit = !filtered && q->limit && q->limit < API_JOBS_DEFAULT ? q->limit + 1 : 0,
        .unfinished_only = q->states && (q->states & JOB_STATES_FINAL) == 0};
    uint32_t kept = 0;
    for (bool more = true; more && (!q->limit || kept <= q->limit);) {
        struct api_list_jobs_reply page;
        grpc_status_code status;
        int err = client_call(client, ch, API_LIST_JOBS, &r, &page, &status);
        if (err == HAWK_ENOT_FOUND && r.before.v)
            return 0; /* the dist has forgotten it since the last page, and all older ones */
        if (err)
            return err;
        for (uint32_t i = 0; i < page.jobs_n; i++) {
            r.before = page.jobs[i].job;
            if (!query_keeps(q, page.you, &page.jobs[i]))
                continue;
            vec_grow(to->v, to->n, to->cap);
            to->v[to->n++] = page.jobs[i];
            memset(&page.jobs[i], 0, sizeof page.jobs[i]); /* its texts have moved */
            kept++;
        }
        more = page.more && page.jobs_n > 0;
        api_free(&api_list_jobs_reply_type, &page);
    }
    return 0;
}

/* Adds one dist's jobs, perhaps some of them twice. */
static int list_one(struct client *client, struct channel *ch, const struct client_job_query *q,
                    struct job_list *to)
{
    struct client_job_query part = *q;
    uint32_t states = q->states ? q->states : UINT32_MAX;
    int err = 0;
    if (!q->limits_ended)
        return list_pages(client, ch, q, to);
    part.limit = 0;
    if ((part.states = states & JOB_STATES_UNFINISHED))
        err = list_pages(client, ch, &part, to);
    part.limit = q->limit;
    if (!err && (part.states = states & JOB_STATES_FINAL)) /* second: no job ends unseen between the two */
        err = list_pages(client, ch, &part, to);
    return err;
}

static int newer_first(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    if (x->age_us != y->age_us)
        return x->age_us < y->age_us ? -1 : 1;
    return x->job.v > y->job.v ? -1 : x->job.v < y->job.v;
}

static int by_id(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    return x->job.v < y->job.v ? -1 : x->job.v > y->job.v;
}

/* Of one job, what shows it ended comes first. */
static int by_id_and_end(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    int order = by_id(a, b);
    return order ? order : (int)job_state_final(y->state) - (int)job_state_final(x->state);
}

/* Drops jobs that appear twice: a dist may be a contact under one address, and be listed under another, and a job may
 * end while the jobs of its dist are listed. */
static void drop_repeated(struct job_list *l)
{
    uint32_t kept = 0;
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_id_and_end);
    for (uint32_t i = 0; i < l->n; i++)
        if (kept && job_eq(l->v[kept - 1].job, l->v[i].job))
            api_free(&api_job_type, &l->v[i]);
        else
            l->v[kept++] = l->v[i];
    l->n = kept;
}

/* Adds, behind the dists' jobs, the long jobs that no dist shows. */
static void list_central(struct client *client, const struct client_job_query *q, struct job_list *to)
{
    const struct api_node *n = client_find_node(client, ROLE_CENTRAL, NODE_NONE);
    struct job_list own = {0};
    if (!n || strcmp(n->state, member_state_text(MEMBER_UP)) != 0 ||
        client_channel_of(client, n) == client->nodes_from)
        return;
    int err = list_one(client, client_channel_of(client, n), q, &own);
    if (err && err != HAWK_EUNSUPPORTED) /* one of an older version */
        snprintf(client->warning, sizeof client->warning,
                 "long jobs that only central has are missing: %.400s", client->error);
    drop_repeated(to);
    uint32_t dists_n = to->n;
    for (uint32_t i = 0; i < own.n; i++) {
        if (dists_n && bsearch(&own.v[i], to->v, dists_n, sizeof *to->v, by_id)) {
            api_free(&api_job_type, &own.v[i]);
            continue;
        }
        vec_grow(to->v, to->n, to->cap);
        to->v[to->n++] = own.v[i];
    }
    free(own.v);
}

static void list_finish(struct job_list *l, const struct client_job_query *q,
                        struct api_list_jobs_reply *reply)
{
    uint32_t counted = 0, kept = 0;
    drop_repeated(l);
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, newer_first);
    for (uint32_t i = 0; i < l->n; i++) {
        bool counts = !q->limits_ended || job_state_final(l->v[i].state);
        if (!counts || !q->limit || counted++ < q->limit) {
            l->v[kept++] = l->v[i];
            continue;
        }
        api_free(&api_job_type, &l->v[i]);
        reply->more = true;
    }
    reply->jobs = l->v;
    reply->jobs_n = kept;
}

int client_list_jobs(struct client *client, const struct client_job_query *q,
                     struct api_list_jobs_reply *reply)
{
    struct job_list all = {0};
    bool contact_asked = false;
    uint32_t asked = 0;
    memset(reply, 0, sizeof *reply);
    client->warning[0] = '\0';
    int err = client_refresh_nodes(client, client->timeout_us);
    for (uint32_t i = 0; !err && i < client->nodes.nodes_n; i++) {
        const struct api_node *n = &client->nodes.nodes[i];
        if (strcmp(n->role, role_text(ROLE_DIST)) != 0 ||
            strcmp(n->state, member_state_text(MEMBER_GONE)) == 0)
            continue;
        struct channel *ch = client_channel_of(client, n);
        contact_asked |= ch == client->nodes_from;
        asked++;
        if (list_one(client, ch, q, &all))
            snprintf(client->warning, sizeof client->warning, "the jobs of dist %s are missing: %.400s",
                     n->name, client->error);
    }
    /* The contact may leave itself out of its list, or it may be central. */
    if (!err && !contact_asked) {
        int contact_err = list_one(client, client->nodes_from, q, &all);
        err = asked ? 0 : contact_err;
    }
    if (!err)
        list_central(client, q, &all);
    list_finish(&all, q, reply);
    return err;
}
