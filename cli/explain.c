/* hawk explain: why a job is where it is. */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define SLOW_SHOWN 3

/* One worker's part in the job. */
struct place {
    uint32_t worker;
    char name[LIMIT_NAME_BYTES + 1];
    uint32_t tasks[TASK_STATE_COUNT + 1];
    uint32_t reservations, stolen;
    UT_hash_handle hh;
};

struct explanation {
    struct api_job job; /* without its texts */
    char name[LIMIT_NAME_BYTES + 1], user[LIMIT_NAME_BYTES + 1], blocked[LIMIT_NAME_BYTES + 256];
    char waits[LIMIT_NAME_BYTES + 1];
    struct place *places;
    struct api_task slow[SLOW_SHOWN];  /* the tasks that waited longest, longest first; without texts */
    struct api_task stood[SLOW_SHOWN]; /* those that stood still longest, longest first; without texts */
    uint32_t slow_n, stood_n, first_index, tasks_stolen;
    struct ancestors ancestors;
    struct job_desc *spec; /* NULL: not told */
    bool begun;
};

static struct place *place_of(struct explanation *e, uint32_t worker, const char *name)
{
    struct place *p = NULL;
    HASH_FIND(hh, e->places, &worker, sizeof worker, p);
    if (p)
        return p;
    p = xcalloc(1, sizeof *p);
    p->worker = worker;
    snprintf(p->name, sizeof p->name, "%s", name);
    HASH_ADD(hh, e->places, worker, sizeof worker, p);
    return p;
}

static int by_worker(const struct place *a, const struct place *b)
{
    return a->worker < b->worker ? -1 : a->worker > b->worker;
}

static int64_t waited(const struct api_task *t) { return t->wait_us; }
static int64_t stood(const struct api_task *t) { return t->paused_us; }

/* Keeps the SLOW_SHOWN tasks for which `us` is longest, sorted. */
static void note_longest(struct api_task v[SLOW_SHOWN], uint32_t *n, const struct api_task *t,
                         int64_t (*us)(const struct api_task *t))
{
    uint32_t i = *n;
    if (i == SLOW_SHOWN && us(&v[--i]) >= us(t))
        return;
    for (; i > 0 && us(&v[i - 1]) < us(t); i--)
        v[i] = v[i - 1];
    v[i] = *t;
    if (*n < SLOW_SHOWN)
        ++*n;
}

static int gather_page(void *ctx, const struct api_get_job_reply *page, uint32_t first_index)
{
    struct explanation *e = ctx;
    if (!e->begun) {
        e->job = page->job;
        e->first_index = first_index;
        if (page->spec)
            e->ancestors = page->spec->ancestors;
        e->spec = page->spec ? job_desc_copy(page->spec) : NULL;
        snprintf(e->name, sizeof e->name, "%s", page->job.name);
        snprintf(e->user, sizeof e->user, "%s", page->job.user);
        snprintf(e->waits, sizeof e->waits, "%s", page->job.waits ? page->job.waits : "");
        snprintf(e->blocked, sizeof e->blocked, "%s", page->blocked);
        for (uint32_t i = 0; i < page->reservations_n; i++) {
            const struct api_reservation *r = &page->reservations[i];
            place_of(e, r->worker, r->worker_name)->reservations += r->count;
        }
    }
    e->begun = true;
    for (uint32_t i = 0; i < page->tasks_n; i++) {
        const struct api_task *t = &page->tasks[i];
        if (t->wait_us >= 0)
            note_longest(e->slow, &e->slow_n, t, waited);
        if (t->pauses)
            note_longest(e->stood, &e->stood_n, t, stood);
        if (!t->worker)
            continue;
        struct place *p = place_of(e, t->worker, t->worker_name);
        p->tasks[t->state]++;
        p->stolen += t->stolen;
        e->tasks_stolen += t->stolen;
    }
    return 0;
}

/* Writes why the job has its class, with the numbers. */
static void class_reason(const struct explanation *e, char *buf, size_t size)
{
    const struct api_job *j = &e->job;
    const char *estimate = DURATION(j->estimate_us), *cutoff = DURATION(j->cutoff_us);
    const char *below = j->class == CLASS_SHORT ? "below" : "not below";
    switch (j->why) {
    case WHY_TAG:
        snprintf(buf, size, "tagged %s by the user; the cutoff is %s", show_tag(j->tag), cutoff);
        break;
    case WHY_ESTIMATE:
        snprintf(buf, size, "the user's estimate of %s for a task is %s the cutoff of %s", estimate, below,
                 cutoff);
        break;
    case WHY_HISTORY:
        snprintf(buf, size, "tasks of earlier jobs of this name took %s on average, %s the cutoff of %s",
                 estimate, below, cutoff);
        break;
    case WHY_PROMOTED:
        snprintf(buf, size, "it began as short, and its tasks outlived the cutoff of %s: promoted", cutoff);
        break;
    case WHY_UNKNOWN:
        snprintf(buf, size,
                 "no tag, no estimate and no history of this name: counts as short; the cutoff is %s",
                 cutoff);
        break;
    default:
        snprintf(buf, size, "%s", show_why(j->why));
        break;
    }
}

static uint32_t probes_used(const struct api_job *j)
{
    uint64_t other = (uint64_t)j->probes_live + j->probes_cancelled + j->probes_unused + j->probes_lost;
    return other < j->probes_sent ? j->probes_sent - (uint32_t)other : 0;
}

static void print_places(struct explanation *e)
{
    struct text_table t = {0};
    table_columns(&t, "WORKER", ">QUEUED", ">RUNNING", ">DONE", ">FAILED", "?>CANCELLED", "?>RESERVATIONS",
                  "?>STOLEN", NULL);
    HASH_SORT(e->places, by_worker);
    for (const struct place *p = e->places; p; p = p->hh.next) {
        table_cell(&t, "%s (%u)", CLEAN(p->name), p->worker);
        table_cell(&t, "%u", p->tasks[TASK_PLACED] + p->tasks[TASK_LAUNCHED]);
        table_cell(&t, "%u", p->tasks[TASK_RUNNING]);
        table_cell(&t, "%u", p->tasks[TASK_DONE]);
        table_cell(&t, "%u", p->tasks[TASK_FAILED] + p->tasks[TASK_LOST]);
        table_cell(&t, "%u", p->tasks[TASK_CANCELLED]);
        table_cell(&t, "%u", p->reservations);
        table_cell(&t, "%u", p->stolen);
    }
    table_print(&t, "  no worker has anything of it");
}

/* Who places its tasks. A promoted job goes to central, as a job does that began as long. */
static const char *scheduler_text(const struct api_job *j)
{
    if (j->at_central)
        return "central, by waiting time over the general partition";
    if (j->state != JOB_PENDING && j->why != WHY_PROMOTED)
        return "its dist, by probes and late binding";
    if (job_state_final(j->state))
        return "its dist: central had nothing of it";
    return j->waiting ? "central, once it has it: its dist waits to hand it over"
                      : "its dist: when it became long, no task of it was left for central";
}

static void print_pauses(const struct explanation *e)
{
    show_pauses(&e->job);
    for (uint32_t i = 0; i < e->stood_n; i++) {
        const struct api_task *t = &e->stood[i];
        printf("            task %u, %s in %u pause%s, the last for task %u of job %s",
               e->first_index + t->task, DURATION(t->paused_us), t->pauses, PLURAL(t->pauses),
               t->paused_for_task, JOB_TEXT(t->paused_for));
        if (t->paused)
            printf(", for which it has stood still for %s", DURATION(t->stood_us));
        putchar('\n');
    }
}

static void print_explanation(struct explanation *e)
{
    const struct api_job *j = &e->job;
    char why[256];
    class_reason(e, why, sizeof why);
    printf("job %s (%s): %s, %s\n", JOB_TEXT(j->job), CLEAN(e->name), show_class(j->class), show_state_of(j));
    printf("  class     %s\n", why);
    printf("  schedules %s\n", scheduler_text(j));
    show_times(j);
    show_waits(j, NULL);
    show_ancestors(&e->ancestors);
    if (e->ancestors.n > 0 && j->class == CLASS_SHORT && !job_state_final(j->state))
        printf("            no task of %s stands still for it: it may wait for a slot where only those run "
               "long\n",
               e->ancestors.n == 1 ? "that job" : "those jobs");
    printf("  tasks     %u: %u waiting, %u running, %u done, %u failed, %u cancelled, %u lost\n", j->tasks,
           j->waiting, j->running, j->done, j->failed, j->cancelled, j->lost);
    if (*e->blocked)
        printf("  blocked   %s\n", clean_text((char[sizeof e->blocked]){0}, sizeof e->blocked, e->blocked));
    printf("  probes    %u sent: %u used, %u live, %u cancelled, %u answered \"none left\", %u lost with a "
           "worker\n",
           j->probes_sent, probes_used(j), j->probes_live, j->probes_cancelled, j->probes_unused,
           j->probes_lost);
    printf("  steals    %u reservation%s moved to idle workers, %u task%s ran through one\n",
           j->reservations_stolen, PLURAL(j->reservations_stolen), e->tasks_stolen, PLURAL(e->tasks_stolen));
    printf("  times     submitted %s ago, first start after %s, ended after %s\n", DURATION(j->age_us),
           DURATION(j->first_start_us), DURATION(j->response_us));
    for (uint32_t i = 0; i < e->slow_n && e->slow[i].wait_us > 0; i++)
        printf("  %s task %u, %s\n", i ? "         " : "waited   ", e->first_index + e->slow[i].task,
               DURATION(e->slow[i].wait_us));
    print_pauses(e);
    if (e->spec)
        show_command(e->spec);
    putchar('\n');
    print_places(e);
}

static json_t *explanation_json(struct explanation *e)
{
    char why[256];
    json_t *o = json_object(), *list = json_array();
    e->job.name = e->name;
    e->job.user = e->user;
    e->job.waits = e->waits;
    class_reason(e, why, sizeof why);
    json_object_set_new(o, "job", json_text(JOB_TEXT(e->job.job)));
    json_object_set_new(o, "class_reason", json_text(why));
    json_object_set_new(o, "schedules", json_text(scheduler_text(&e->job)));
    json_object_set_new(o, "blocked", json_text(e->blocked));
    json_object_set_new(o, "probes_used", json_integer(probes_used(&e->job)));
    json_object_set_new(o, "tasks_stolen", json_integer(e->tasks_stolen));
    json_t *details = job_json(&e->job);
    ancestors_json(details, &e->ancestors);
    if (e->spec)
        command_json(details, e->spec);
    json_object_set_new(o, "details", details);
    json_t *pauses = json_array();
    for (uint32_t i = 0; i < e->stood_n; i++) {
        json_t *task = json_object();
        json_object_set_new(task, "index", json_integer((json_int_t)e->first_index + e->stood[i].task));
        pauses_json(task, &e->stood[i]);
        json_array_append_new(pauses, task);
    }
    json_object_set_new(o, "pauses", pauses);
    json_t *slow = json_array();
    for (uint32_t i = 0; i < e->slow_n && e->slow[i].wait_us > 0; i++)
        json_array_append_new(slow,
                              json_pack("{s:I, s:I}", "index", (json_int_t)e->first_index + e->slow[i].task,
                                        "wait_us", (json_int_t)e->slow[i].wait_us));
    json_object_set_new(o, "waited", slow);
    json_object_set_new(o, "workers", list);
    HASH_SORT(e->places, by_worker);
    for (const struct place *p = e->places; p; p = p->hh.next) {
        json_t *w = json_object(), *tasks = json_object();
        json_object_set_new(w, "worker", json_integer(p->worker));
        json_object_set_new(w, "worker_name", json_text(p->name));
        json_object_set_new(w, "reservations", json_integer(p->reservations));
        json_object_set_new(w, "tasks_stolen", json_integer(p->stolen));
        for (uint32_t state = 0; state < TASK_STATE_COUNT; state++)
            json_object_set_new(tasks, show_task_state(state), json_integer(p->tasks[state]));
        json_object_set_new(w, "tasks", tasks);
        json_array_append_new(list, w);
    }
    return o;
}

static void explanation_free(struct explanation *e)
{
    struct place *p = e->places;
    job_desc_drop(e->spec);
    HASH_CLEAR(hh, e->places); /* the table only */
    while (p) {
        struct place *next = p->hh.next;
        free(p);
        p = next;
    }
}

static int explain_job(void *arg, struct session *s, job_id_t job, json_t *list)
{
    struct explanation e = {0};
    bool *printed = arg;
    int exit_code = HAWK_EXIT_OK;
    if (job_pages(s->client, job, 0, UINT32_MAX, gather_page, &e) < 0)
        exit_code = session_failed(s);
    else if (s->mode == OUTPUT_JSON)
        json_array_append_new(list, explanation_json(&e));
    else if (s->mode == OUTPUT_QUIET)
        printf("%s %s\n", JOB_TEXT(e.job.job), show_class(e.job.class));
    else {
        fputs(*printed ? "\n" : "", stdout);
        print_explanation(&e);
    }
    *printed = true;
    explanation_free(&e);
    return exit_code;
}

int explain_main(int argc, char **argv)
{
    bool printed = false;
    return session_command(argc, argv,
                           &(struct each_job){.list = "jobs", .job = explain_job, .arg = &printed});
}
