/* A worker that cannot start tasks takes itself out of service (protocol 8). Otherwise its queue would always
 * be empty, and it would draw tasks that other workers could run.
 *
 *   IN --3 jobs blamed--> ASKED --central grants--> OUT --a check succeeds, or 10 minutes--> IN
 *                           +--central refuses--> IN                +--central needs it--> IN
 *
 * Owners decide whom to blame: a failure counts when the same task has started elsewhere. */
#include "worker/internal.h"

#include "base/mem.h"

#include <stdlib.h>

enum service_state {
    SERVICE_IN,
    SERVICE_ASKED, /* goes on as before until central answers */
    SERVICE_OUT,   /* takes no new work */
    SERVICE_STATE_COUNT
};

struct failure {
    job_id_t job;
    int64_t at_us;      /* when it failed; once blamed: when it was blamed */
    struct blob *place; /* the job's place, as in EXEC_EXITED; NULL: nothing that the job named */
    struct blob *why;
    bool blamed;
};

struct service {
    enum service_state state;
    struct failure failures[WORKER_FAILURES]; /* one per job */
    uint32_t n;
    uint64_t starts_failed;   /* tasks that it could not start, ever */
    struct blob *failed_why;  /* the last of them */
    bool checking;            /* a check has no answer yet */
    uint32_t stale;           /* checks of earlier times out, without an answer yet; these come in order */
    struct blob *why, *place; /* ASKED, OUT: from the failure that was blamed last */
    int64_t until_us;         /* OUT: the latest time of return */
    int64_t check_us;         /* OUT: time of the next check */
    int64_t pause_us;         /* time to the check after it */
    int64_t back_us;          /* time of the last return; 0: it never left */
};

static const uint8_t legal_moves[SERVICE_STATE_COUNT] = {
    [SERVICE_IN] = 1 << SERVICE_ASKED,
    [SERVICE_ASKED] = 1 << SERVICE_OUT | 1 << SERVICE_IN,
    [SERVICE_OUT] = 1 << SERVICE_IN,
};

static void set_state(struct service *s, enum service_state state)
{
    CHECK(legal_moves[s->state] & 1 << state);
    s->state = state;
}

bool worker_is_out(const struct worker *w) { return w->service && w->service->state == SERVICE_OUT; }

bool worker_out_of_service(const struct worker *w, const struct blob **why)
{
    *why = worker_is_out(w) ? w->service->why : NULL;
    return worker_is_out(w);
}

uint64_t worker_starts_failed(const struct worker *w, const struct blob **why)
{
    *why = w->service ? w->service->failed_why : NULL;
    return w->service ? w->service->starts_failed : 0;
}

/* ---- Failures to start ---- */

static void failure_drop(struct failure *f)
{
    blob_drop(f->place);
    blob_drop(f->why);
}

static void forget_failures(struct service *s)
{
    while (s->n > 0)
        failure_drop(&s->failures[--s->n]);
}

static struct failure *failure_of(struct service *s, job_id_t job)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (job_eq(s->failures[i].job, job))
            return &s->failures[i];
    return NULL;
}

static struct failure *room(struct service *s)
{
    struct failure *oldest = s->failures;

    if (s->n < WORKER_FAILURES)
        return &s->failures[s->n++];
    for (uint32_t i = 1; i < s->n; i++)
        if (s->failures[i].at_us < oldest->at_us)
            oldest = &s->failures[i];
    failure_drop(oldest);
    return oldest;
}

void worker_service_failed(struct worker *w, job_id_t job, const struct msg_exec_exited *m)
{
    struct service *s;

    if (!w->service)
        w->service = xcalloc(1, sizeof *w->service);
    s = w->service;
    s->starts_failed++;
    blob_drop(s->failed_why);
    s->failed_why = blob_ref(m->result);
    if (!w->config.leaves_service)
        return;
    if (!failure_of(s, job))
        *room(s) = (struct failure){
            .job = job, .at_us = w->now_us, .place = blob_ref(m->place), .why = blob_ref(m->result)};
}

static bool same_place(const struct failure *a, const struct failure *b)
{
    return a->place && b->place && blob_eq(a->place, b->place);
}

static bool is_recent(const struct worker *w, const struct failure *f)
{
    return f->blamed && w->now_us - f->at_us <= WORKER_BLAMED_US;
}

/* The number of jobs that started elsewhere lately. Jobs that lack the same directory count as one: a user
 * may have removed it on purpose. */
static uint32_t blamed(const struct worker *w, const struct service *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct failure *f = &s->failures[i];
        bool counts = is_recent(w, f);

        for (uint32_t k = 0; counts && k < i; k++)
            counts = !is_recent(w, &s->failures[k]) || !same_place(f, &s->failures[k]);
        n += counts;
    }
    return n;
}

/* ---- Leaving and coming back ---- */

static void tell_service(struct worker *w, bool on)
{
    struct msg_out_of_service *m = &out_add(w->out, MSG_OUT_OF_SERVICE, NODE_CENTRAL.v)->out_of_service;

    m->on = on;
    m->why = on ? blob_ref(w->service->why) : NULL;
}

static bool central_hears(const struct worker *w)
{
    return w->joined && msg_in_version(MSG_OUT_OF_SERVICE, w->central_version);
}

static void forget_reason(struct service *s)
{
    blob_drop(s->why);
    blob_drop(s->place);
    s->why = s->place = NULL;
}

/* The worker takes work again; failures count anew. */
static void back(struct worker *w)
{
    struct service *s = w->service;

    if (s->state == SERVICE_OUT)
        s->back_us = w->now_us;
    set_state(s, SERVICE_IN);
    forget_failures(s);
    forget_reason(s);
}

/* Output: at most 1 message. */
static void back_by_itself(struct worker *w)
{
    back(w);
    if (central_hears(w))
        tell_service(w, false);
}

/* Output: at most 1 message. The job has started elsewhere, so the failure was this worker's. */
void worker_on_start_blamed(struct worker *w, const struct msg *in)
{
    const struct owner *o = worker_owner_find(w, (node_id_t){in->peer});
    struct service *s = w->service;
    struct failure *f;

    if (!o || o->state != OWNER_UP)
        return;
    worker_count(w, COUNTER_starts_blamed, 1);
    f = s ? failure_of(s, in->start_blamed.job) : NULL;
    if (!f || f->blamed)
        return;
    f->blamed = true;
    f->at_us = w->now_us;
    if (s->state != SERVICE_IN || w->stopping || blamed(w, s) < WORKER_BLAMED_JOBS)
        return;
    set_state(s, SERVICE_ASKED);
    s->why = blob_ref(f->why);
    s->place = blob_ref(f->place);
    if (central_hears(w)) /* otherwise after the next join */
        tell_service(w, true);
}

/* Output: at most 1 message. */
void worker_service_joined(struct worker *w)
{
    struct service *s = w->service;

    if (!s || s->state == SERVICE_IN)
        return;
    if (central_hears(w))
        tell_service(w, true);
    else
        back(w);
}

/* A worker that returned a short time ago continues with its last time between checks. */
static void leave_service(struct worker *w)
{
    struct service *s = w->service;

    set_state(s, SERVICE_OUT);
    if (!s->back_us || w->now_us - s->back_us > WORKER_OUT_MAX_US)
        s->pause_us = WORKER_CHECK_MIN_US;
    s->until_us = time_after(w->now_us, WORKER_OUT_MAX_US);
    s->check_us = time_after(w->now_us, s->pause_us);
    s->stale += s->checking;
    s->checking = false;
    worker_lanes_empty(w);
}

/* Output: at most 1 message per entry. Running tasks and requests go on, as in a drain. */
void worker_on_out_of_service(struct worker *w, const struct msg *in)
{
    struct service *s = w->service;

    if (!w->joined)
        return;
    if (!in->out_of_service.on) {
        if (s && s->state != SERVICE_IN)
            back(w);
    } else if (s && s->state == SERVICE_ASKED) {
        leave_service(w);
    } else if (!s || s->state == SERVICE_IN) { /* a refusal crossed the question */
        out_add(w->out, MSG_OUT_OF_SERVICE, NODE_CENTRAL.v);
    }
}

/* ---- Checks ---- */

int64_t worker_service_next(const struct worker *w)
{
    const struct service *s = w->service;

    if (!worker_is_out(w))
        return TIME_NEVER;
    return s->checking || s->until_us < s->check_us ? s->until_us : s->check_us;
}

/* Output: at most 1 message. */
void worker_service_due(struct worker *w)
{
    struct service *s = w->service;

    if (w->now_us < worker_service_next(w))
        return;
    if (w->now_us >= s->until_us) {
        back_by_itself(w);
        return;
    }
    s->checking = true;
    s->pause_us = s->pause_us < WORKER_CHECK_MAX_US / 2 ? 2 * s->pause_us : WORKER_CHECK_MAX_US;
    s->check_us = time_after(w->now_us, s->pause_us);
    out_add(w->out, MSG_EXEC_CHECK, 0)->exec_check.place = blob_ref(s->place);
}

/* Output: at most 1 message. */
void worker_on_exec_checked(struct worker *w, const struct msg *in)
{
    if (!w->service)
        return;
    if (w->service->stale > 0) {
        w->service->stale--;
        return;
    }
    w->service->checking = false;
    if (worker_is_out(w) && !in->exec_checked.why)
        back_by_itself(w);
}

void worker_service_check(const struct worker *w)
{
    const struct service *s = w->service;

    if (!s)
        return;
    CHECK(s->n <= WORKER_FAILURES);
    CHECK(s->state != SERVICE_IN || (!s->why && !s->place));
    CHECK(s->state != SERVICE_OUT || s->pause_us >= WORKER_CHECK_MIN_US);
    CHECK(s->state != SERVICE_OUT || s->pause_us <= WORKER_CHECK_MAX_US);
}

void worker_service_free(struct worker *w)
{
    if (!w->service)
        return;
    forget_failures(w->service);
    forget_reason(w->service);
    blob_drop(w->service->failed_why);
    free(w->service);
}
