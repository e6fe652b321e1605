/* Waits for jobs: `hawk wait` and `hawk submit --wait`. */
#include "cli/wait.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "cli/document.h"
#include "cli/failures.h"
#include "cli/print.h"
#include "cli/result.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERRUPTED 1    /* the tick's value that ends the watching; errors are negative */
#define GAVE_UP 2        /* likewise */
#define FAILURES_SHOWN 5 /* kinds of failures, of one job */
#define WAITING_SHOWN 5  /* jobs of which it says what they wait for */
#define PENDING_TOLD_US (2 * US_PER_S)

static volatile sig_atomic_t interrupted; /* the signal; 0: none came */

static void on_interrupt(int signo) { interrupted = signo; }

struct progress {
    struct session *session;
    const struct waiting *how;
    struct api_job *jobs; /* by id, as of the last event */
    struct kept_results *kept;
    uint32_t n;
    bool shown;    /* the progress line is shown */
    bool terminal; /* where it can be drawn over */
    bool printed;  /* one is on the screen */
    int64_t printed_us;
    bool warned;
    uint8_t *told;         /* by job: the state in which it said what the job waits for */
    uint32_t told_n;       /* jobs of which it said so */
    int64_t start_us;      /* monotonic_us() */
    int64_t heard_us;      /* when it first heard of a job; 0: not yet */
    uint64_t ended_before; /* tasks that had ended when it first heard of their jobs */
};

static int by_id(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    return x->job.v < y->job.v ? -1 : x->job.v > y->job.v;
}

static int on_event(void *ctx, const struct api_event *event)
{
    struct progress *p = ctx;
    struct api_job *j = bsearch(&event->job, p->jobs, p->n, sizeof *p->jobs, by_id);
    if (!j)
        return 0;
    if (!j->name) {
        p->ended_before += (uint64_t)event->job.done + event->job.failed + event->job.lost;
        p->heard_us = p->heard_us ? p->heard_us : monotonic_us();
    }
    for (uint32_t i = 0; p->kept && i < event->tasks_n; i++)
        results_keep(p->kept, j->job, &event->tasks[i]);
    api_free(&api_job_type, j);
    *j = event->job;
    j->name = xstrdup(j->name);
    j->user = xstrdup(j->user);
    j->waits = j->waits ? xstrdup(j->waits) : NULL;
    return 0;
}

static void print_progress(struct progress *p, bool last)
{
    uint64_t tasks = 0, done = 0, bad = 0, cancelled = 0, running = 0;
    uint32_t ended = 0;
    int64_t now = monotonic_us();
    char speed[SPEED_TEXT];
    for (uint32_t i = 0; i < p->n; i++) {
        const struct api_job *j = &p->jobs[i];
        tasks += j->tasks;
        done += j->done;
        bad += (uint64_t)j->failed + j->lost;
        cancelled += j->cancelled;
        running += j->running;
        ended += job_state_final(j->state);
    }
    if (tasks == 0) /* nothing was heard yet */
        return;
    if (!p->terminal && !last && p->printed_us && now < p->printed_us + PLAIN_PROGRESS_US)
        return;
    fprintf(stderr, "%s%llu of %llu task%s done, %llu running", p->terminal ? PROGRESS_BEGIN : "",
            (unsigned long long)done, (unsigned long long)tasks, PLURAL(tasks), (unsigned long long)running);
    if (bad)
        fprintf(stderr, ", %llu failed", (unsigned long long)bad);
    if (cancelled)
        fprintf(stderr, ", %llu cancelled", (unsigned long long)cancelled);
    uint64_t since = done + bad > p->ended_before ? done + bad - p->ended_before : 0;
    fputs(speed_text(speed, since, now - p->heard_us, tasks - done - bad - cancelled, 0), stderr);
    if (p->n > 1)
        fprintf(stderr, "; %u of %u jobs ended", ended, p->n);
    fprintf(stderr, "; %s%s", DURATION(now - p->start_us), p->terminal ? PROGRESS_END : "\n");
    p->printed = p->terminal;
    p->printed_us = now;
}

/* What keeps a job from going on. A job of which some tasks run may be held. JOB_WAITING: nothing but want of slots. */
static uint32_t waits_as(const struct api_job *j)
{
    if (!j->name || job_state_final(j->state))
        return JOB_WAITING;
    return j->held ? JOB_HELD : j->state;
}

/* Whether it is time to say what this job waits for: once for each time it begins to. */
static bool waits_untold(struct progress *p, uint32_t i)
{
    uint32_t state = waits_as(&p->jobs[i]);
    if (state != JOB_HELD && state != JOB_BLOCKED && state != JOB_PENDING)
        p->told[i] = 0;
    else if (p->told[i] != state + 1 &&
             /* Every long job starts pending. */
             (state != JOB_PENDING || monotonic_us() - p->start_us >= PENDING_TOLD_US)) {
        p->told[i] = (uint8_t)(state + 1);
        return true;
    }
    return false;
}

/* Says why the job is blocked or pending, if it still is. */
static void say_why(struct session *s, const char *id, job_id_t job)
{
    struct api_get_job_request r = {.job = job};
    struct api_get_job_reply reply;
    char text[LIMIT_NAME_BYTES + 256];
    if (client_get_job(s->client, &r, &reply))
        return; /* the watch says why */
    clean_text(text, sizeof text, reply.blocked);
    if (reply.job.state == JOB_BLOCKED && *text)
        say_warning(s->command, "job %s %s", id, text);
    else if (reply.job.state == JOB_PENDING && *text)
        say_warning(s->command, "job %s is pending: %s", id, text);
    api_free(&api_get_job_reply_type, &reply);
}

/* Says what jobs wait for that something else than a free slot keeps from starting. */
static void tell_waiting(struct progress *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct api_job *j = &p->jobs[i];
        if (!waits_untold(p, i) || p->told_n > WAITING_SHOWN)
            continue;
        const char *id = JOB_TEXT(j->job);
        fputs(p->printed ? "\r\033[K" : "", stderr);
        if (++p->told_n > WAITING_SHOWN)
            say_warning(p->session->command,
                        "more jobs wait: `hawk jobs --state held,blocked,pending` lists them");
        else if (j->held)
            say_warning(p->session->command, "job %s is held: it goes on after `hawk release %s`", id, id);
        else
            say_why(p->session, id, j->job);
    }
}

/* client_watch() calls this ten times a second at most. */
static int on_tick(void *ctx)
{
    struct progress *p = ctx;
    tell_waiting(p);
    if (!p->warned && *client_warning(p->session->client)) {
        p->warned = true;
        fputs(p->printed ? "\r\033[K" : "", stderr);
        session_warn(p->session);
    }
    if (p->shown)
        print_progress(p, false);
    if (interrupted)
        return INTERRUPTED;
    return p->how->for_us && monotonic_us() - p->start_us >= p->how->for_us ? GAVE_UP : 0;
}

/* ---- What went wrong ---- */

struct failed_tasks {
    struct failures list;
    uint32_t left;    /* not seen yet */
    int64_t limit_us; /* the job's time limit */
};

static int add_failures(void *ctx, const struct api_get_job_reply *page, uint32_t first_index)
{
    struct failed_tasks *f = ctx;
    char ending[TASK_ENDING_MAX], number[16];
    if (page->spec)
        f->limit_us = page->spec->time_limit_us;
    for (uint32_t i = 0; i < page->tasks_n && f->left > 0; i++) {
        const struct api_task *t = &page->tasks[i];
        if (!task_state_final(t->state) || t->state == TASK_DONE || t->state == TASK_CANCELLED)
            continue;
        failures_add(&f->list, t, first_index + t->task, task_ending(ending, sizeof ending, t, f->limit_us),
                     0);
        int len = snprintf(number, sizeof number, "%u", first_index + t->task);
        bool is_number = t->input_n == (uint32_t)len && memcmp(t->input, number, t->input_n) == 0;
        if (t->input_n && !is_number) /* numbers stand in the lines of their failures */
            failures_add_input(&f->list, t->input, t->input_n);
        f->left--;
    }
    return f->left == 0;
}

static void explain_failure(struct session *s, const struct api_job *j)
{
    const char *job = JOB_TEXT(j->job);
    uint32_t bad = j->failed + j->lost;
    struct failed_tasks f = {.left = bad};
    char where[JOB_ID_TEXT + 32];
    if (!job_state_final(j->state)) {
        fprintf(stderr,
                "hawk: job %s: how it ended is not known; when last heard of, %u of %u task%s %s done\n", job,
                j->done, j->tasks, PLURAL(j->tasks), j->tasks == 1 ? "was" : "were");
        return;
    }
    if (bad == 0) {
        fprintf(stderr, "hawk: job %s was cancelled: %u of %u task%s %s done", job, j->done, j->tasks,
                PLURAL(j->tasks), j->tasks == 1 ? "was" : "were");
        const char *cause = show_cause((char[CAUSE_TEXT]){0}, j, NULL);
        if (cause && !j->by_client)
            fprintf(stderr, "; %s", cause);
        fputc('\n', stderr);
        return;
    }
    int got = job_pages(s->client, j->job, 0, UINT32_MAX, add_failures, &f);
    fprintf(stderr, "hawk: job %s: %u of %u task%s failed", job, bad, j->tasks, PLURAL(j->tasks));
    if (j->cancelled)
        fprintf(stderr, ", %u %s cancelled", j->cancelled, j->cancelled == 1 ? "was" : "were");
    snprintf(where, sizeof where, "`hawk job --failed %s` has them", job);
    failures_print_inputs(&f.list, stderr, j->cancelled ? "; failed" : "", where);
    fputc('\n', stderr);
    failures_print(&f.list, stderr, "  ", FAILURES_SHOWN);
    failures_free(&f.list);
    if (got < 0)
        return; /* the job may be forgotten by now: there are only its counts */
    fprintf(stderr, "  `hawk job %s` shows them, `hawk cat %s TASK stderr` what a command wrote\n", job, job);
}

/* after: "", or the time it waited. */
static void explain_stop(const struct progress *p, const struct selection *jobs, const char *after)
{
    const char *what = jobs->n == 1 ? JOB_TEXT(jobs->jobs[0]) : "ID...";
    char who[JOB_ID_TEXT + 32];
    uint32_t unfinished = 0, attended = 0, held = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct api_job *j = &p->jobs[i];
        if (job_state_final(j->state))
            continue;
        unfinished++;
        held += j->held;
        if ((j->attended || p->how->attended) && attended++ == 0)
            snprintf(who, sizeof who, "job %s is", JOB_TEXT(j->job));
    }
    if (attended == 0 && held == unfinished && held > 0) {
        say_error(NULL,
                  "no longer waiting%s; %s held: `hawk release %s` lets %s go on, `hawk wait %s` waits again",
                  after, jobs->n == 1 ? "the job stays" : "the jobs stay", what, jobs->n == 1 ? "it" : "them",
                  what);
        return;
    }
    if (attended == 0) {
        say_error(NULL, "no longer waiting%s; %s: `hawk wait %s` waits again, `hawk cancel %s` cancels",
                  after, jobs->n == 1 ? "the job goes on" : "the jobs go on", what, what);
        return;
    }
    if (attended > 1)
        snprintf(who, sizeof who, "%u jobs are", attended);
    say_error(NULL,
              "no longer waiting%s: %s cancelled when nobody waits for %s for a while (the "
              "dist's client_grace, 10s by default)%s; `hawk wait %s` goes on waiting",
              after, who, attended == 1 ? "it" : "them", attended < unfinished ? ", the rest goes on" : "",
              what);
}

static void explain_giving_up(const struct progress *p, const struct selection *jobs)
{
    char after[DURATION_TEXT + 16];
    snprintf(after, sizeof after, " after %s", DURATION(p->how->for_us));
    explain_stop(p, jobs, after);
}

/* ---- All of it ---- */

static int report_jobs(struct session *s, const struct progress *p, bool gave_up)
{
    int exit_code = HAWK_EXIT_OK;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct api_job *j = &p->jobs[i];
        if (j->state == JOB_DONE || !j->name) /* or never heard of */
            continue;
        if (gave_up && !job_state_final(j->state))
            continue;
        exit_code = HAWK_EXIT_FAILED;
        if (s->mode == OUTPUT_TABLE)
            explain_failure(s, j);
    }
    return exit_code;
}

/* Prints the jobs as far as they are known, also when the waiting failed: `submit --wait` has shown their
 * ids nowhere else. */
static int print_json(const struct progress *p, bool results)
{
    int exit_code = HAWK_EXIT_OK;
    json_t *list = json_array(), *tasks = NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        json_array_append_new(list, p->jobs[i].name ? job_json(&p->jobs[i])
                                                    : json_pack("{s:s}", "job", JOB_TEXT(p->jobs[i].job)));
        if (!results)
            continue;
        int got = results_print(p->session, &p->jobs[i], p->kept, &tasks);
        exit_code = exit_code ? exit_code : got;
        json_object_set_new(json_array_get(list, i), "results", tasks);
    }
    document_print(json_pack("{s:o}", "jobs", list));
    return exit_code;
}

/* Prints the results in the order in which the jobs were named. */
static int print_results(const struct progress *p, const struct selection *jobs)
{
    int exit_code = HAWK_EXIT_OK;
    for (uint32_t i = 0; i < jobs->n; i++) {
        const struct api_job *j =
            bsearch(&(struct api_job){.job = jobs->jobs[i]}, p->jobs, p->n, sizeof *p->jobs, by_id);
        int got = results_print(p->session, j, p->kept, NULL);
        exit_code = exit_code ? exit_code : got;
    }
    return exit_code;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof signals / sizeof *signals)

/* The first of them stops the waiting; a second one ends whatever still hangs. */
static void heed_signals(struct sigaction old[SIGNALS])
{
    const struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    interrupted = 0;
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], signal_ignored(signals[i]) ? NULL : &act, &old[i]);
}

static void heed_no_more(const struct sigaction old[SIGNALS])
{
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &old[i], NULL);
}

int wait_jobs(struct session *s, const struct selection *jobs, const struct waiting *how)
{
    bool results = how->results;
    struct progress p = {.session = s,
                         .how = how,
                         .n = jobs->n,
                         .start_us = monotonic_us(),
                         .terminal = stderr_redraws(),
                         .shown = how->progress || (s->mode == OUTPUT_TABLE && stderr_redraws())};
    struct sigaction old[SIGNALS];
    p.jobs = xcalloc(p.n ? p.n : 1, sizeof *p.jobs);
    p.told = xcalloc(p.n ? p.n : 1, sizeof *p.told);
    for (uint32_t i = 0; i < p.n; i++)
        p.jobs[i] = (struct api_job){.job = jobs->jobs[i]};
    qsort(p.jobs, p.n, sizeof *p.jobs, by_id);
    p.kept = results ? results_keep_new() : NULL;
    heed_signals(old);
    int result = client_watch(s->client, jobs->jobs, jobs->n,
                              results ? CLIENT_WATCH_RESULTS : CLIENT_WATCH_JOBS, on_event, on_tick, &p);
    heed_no_more(old);
    if (p.shown)
        print_progress(&p, true); /* how it ended */
    if (p.printed)
        fputc('\n', stderr);
    int exit_code;
    if (result == INTERRUPTED) {
        exit_code = exit_code_of_signal(interrupted);
        explain_stop(&p, jobs, "");
    } else {
        exit_code = report_jobs(s, &p, result == GAVE_UP);
    }
    if (result < 0)
        exit_code = session_failed(s);
    if (result == GAVE_UP) {
        explain_giving_up(&p, jobs);
        exit_code = HAWK_EXIT_GAVE_UP;
    }
    if (results && result == 0 && s->mode != OUTPUT_JSON) {
        int got = print_results(&p, jobs);
        exit_code = exit_code ? exit_code : got;
    }
    if (s->mode == OUTPUT_JSON) {
        int got = print_json(&p, results && result == 0);
        exit_code = exit_code ? exit_code : got;
    }
    for (uint32_t i = 0; i < p.n; i++)
        api_free(&api_job_type, &p.jobs[i]);
    free(p.jobs);
    free(p.told);
    results_keep_free(p.kept);
    return exit_code;
}
