/* What central's journal costs and how fast a killed central is back: a real `hawk central` process with its
 * SQLite journal, 10,000 workers (the workers' own policy objects, each with its own connection, all in this
 * process) and 100,000 unfinished long tasks, of which 20,000 are jobs of their own. Central is then killed
 * with -9 and started again.
 *
 * Beside it, as the bound: what bare SQLite commits per second on the same disk, one row a commit. Usage:
 * bench_recovery [FILE.json [WORKERS [ROUNDS]]] */
#include "base/log.h"
#include "base/units.h"
#include "bench/lib/figures.h"
#include "bench/lib/hosted.h"
#include "bench/lib/programs.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define TASKS_PER_WORKER 10u
#define ARRAY_TASKS 100u      /* tasks of one of the big jobs */
#define SINGLE_SHARE 5u       /* every fifth task is a job of its own */
#define SINGLES_IN_FLIGHT 64u /* of those, sent and not accepted */
#define STEP_S 300            /* no phase takes longer */
#define KNOWN_S 40            /* within this, long before a lease is over, central knows every task again */
#define TICK_US (50 * US_PER_MS)

struct bench {
    struct loop *loop;
    struct links *dist_links;
    struct link *dist;
    struct hosted *workers;
    uint32_t n_workers;
    char dir[64], addr[ADDRESS_MAX];
    pid_t central;
    /* What was heard. */
    uint32_t jobs_accepted, jobs_watched, tasks_elsewhere, tasks_known;
    bool dist_joined;
    char lost[200]; /* why the link to central was lost last */
};

/* ---- The dist: submits, and asks what became of it ---- */

static void dist_up(void *arg, struct link *k)
{
    struct msg m = {.type = MSG_JOIN};

    (void)arg;

    m.join = (struct msg_join){.name = blob_str("load"),
                               .addr = blob_str("unix:/nowhere"),
                               .incarnation = 1,
                               .version = PROTOCOL_VERSION,
                               .role = ROLE_DIST};
    if (link_send(k, &m))
        bench_die("cannot join");
    blob_drop(m.join.name);
    blob_drop(m.join.addr);
}

static void dist_msg(void *arg, struct link *k, const struct msg *m)
{
    struct bench *b = arg;

    (void)k;
    if (m->type == MSG_JOINED)
        b->dist_joined = true;
    else if (m->type == MSG_LONG_ACCEPTED)
        b->jobs_accepted++;
    else if (m->type == MSG_LONG_WATCHED && m->long_watched.err == 0)
        b->jobs_watched++;
    else if (m->type == MSG_LONG_REFUSED)
        bench_die("a job was refused");
    else if (m->type == MSG_LONG_TASK && m->long_task.state == TASK_WAITING)
        b->tasks_elsewhere++;
    else if (m->type == MSG_LONG_TASK)
        b->tasks_known++;
}

static void dist_lost(void *arg, struct link *k, int err, const char *text)
{
    struct bench *b = arg;

    (void)k;
    b->dist_joined = false;
    snprintf(b->lost, sizeof b->lost, "%s (%s)", text, hawk_strerror(err));
}

static void submit(struct bench *b, uint64_t seq, struct job_desc *d)
{
    struct msg m = {.type = MSG_LONG_SUBMIT};

    m.long_submit = (struct msg_long_submit){.job = job_id_make((node_id_t){1}, seq),
                                             .desc = d,
                                             .estimate_us = 3600 * US_PER_S,
                                             .epoch = 1,
                                             .why = WHY_TAG};
    if (link_send(b->dist, &m))
        bench_die("cannot submit: %s", b->lost);
}

static struct job_desc *job_of(uint32_t tasks)
{
    struct job_desc *d = job_desc_new();

    d->tasks = tasks;
    d->kind = PAYLOAD_COMMAND;
    d->tag = TAG_LONG;
    blob_drop(d->name);
    d->name = blob_str("night build");
    strings_add(&d->argv, "sleep");
    strings_add(&d->argv, "3600");
    strings_add(&d->env, "PATH=/usr/bin:/bin");
    d->cwd = blob_str("/");
    return d;
}

/* ---- Phases ---- */

static bool wait_counter(struct bench *b, const uint32_t *counter, uint32_t until)
{
    int64_t end_us = loop_now(b->loop) + STEP_S * US_PER_S;

    while (*counter < until && loop_now(b->loop) < end_us)
        loop_once(b->loop, end_us);
    return *counter >= until;
}

static double seconds_since(const struct bench *b, int64_t since_us)
{
    return (double)(loop_now(b->loop) - since_us) / US_PER_S;
}

/* Returns when it listens, and so has read its journal. A heartbeat a second: 10,000 workers share a thread
 * here, which can send and be answered some 15,000 a second. */
static void start_central(struct bench *b, const char *hawk)
{
    char state[100], addr[ADDRESS_MAX];

    snprintf(state, sizeof state, "%s/central", b->dir);
    b->central = start_daemon(hawk, addr, "central", "--listen", b->addr, "--state-dir", state, "--policy",
                              "hawk-no-partition", "--policy-off", "stealing", "--heartbeat", "1s",
                              "--suspect", "6s", "--log-level", "error", NULL);
}

/* A busy machine may have cost the link a ping; it comes back by itself. */
static void wait_dist(struct bench *b)
{
    while (!b->dist_joined)
        loop_once(b->loop, loop_now(b->loop) + TICK_US);
}

static void submit_all(struct bench *b, struct figures *f, uint32_t *jobs)
{
    uint32_t tasks = b->n_workers * TASKS_PER_WORKER, singles = tasks / SINGLE_SHARE;
    uint32_t arrays = (tasks - singles) / ARRAY_TASKS, sent = 0;
    struct job_desc *array = job_of(ARRAY_TASKS), *single = job_of(1);
    int64_t at_us;

    wait_dist(b);
    at_us = loop_now(b->loop);
    for (uint64_t i = 1; i <= arrays; i++)
        submit(b, i, array);
    if (!wait_counter(b, &b->jobs_accepted, arrays))
        bench_die("the arrays were not accepted");
    figures_add(f, "tasks of arrays accepted", "/s", (tasks - singles) / seconds_since(b, at_us));
    at_us = loop_now(b->loop);
    while (b->jobs_accepted < arrays + singles) {
        while (sent < singles && arrays + sent < b->jobs_accepted + SINGLES_IN_FLIGHT)
            submit(b, arrays + ++sent, single);
        if (!wait_counter(b, &b->jobs_accepted, b->jobs_accepted + 1))
            bench_die("the jobs of one task were not accepted");
    }
    figures_add(f, "jobs of one task accepted", "/s", singles / seconds_since(b, at_us));
    *jobs = arrays + singles;
    job_desc_drop(array);
    job_desc_drop(single);
    while (hosted_central_tasks(b->workers) < (arrays * ARRAY_TASKS) + singles)
        loop_once(b->loop, loop_now(b->loop) + TICK_US);
}

static void watch_all(struct bench *b, uint32_t jobs)
{
    b->jobs_watched = b->tasks_known = b->tasks_elsewhere = 0;
    for (uint64_t i = 1; i <= jobs; i++) {
        struct msg m = {.type = MSG_LONG_WATCH,
                        .long_watch = {.job = job_id_make((node_id_t){1}, i), .epoch = 1}};

        if (link_send(b->dist, &m))
            bench_die("cannot watch: %s", b->lost);
    }
    if (!wait_counter(b, &b->jobs_watched, jobs))
        bench_die("central does not know every job");
}

static void recover(struct bench *b, const char *hawk, struct figures *f, uint32_t jobs)
{
    uint32_t held = hosted_central_tasks(b->workers);
    struct job_desc *one = job_of(1);
    int64_t at_us;

    end_program(b->central, SIGKILL);
    hosted_forget_joins(b->workers);
    at_us = loop_now(b->loop);
    start_central(b, hawk);
    figures_add(f, "central has read its journal", "s", seconds_since(b, at_us));
    if (!wait_counter(b, &hosted_counts(b->workers)->joined, b->n_workers))
        bench_die("not all workers came back");
    figures_add(f, "first link again", "s",
                (double)(hosted_counts(b->workers)->first_up_us - at_us) / US_PER_S);
    figures_add(f, "all workers again", "s", seconds_since(b, at_us));
    wait_dist(b);
    do
        watch_all(b, jobs);
    while ((b->tasks_elsewhere || b->tasks_known != held) && seconds_since(b, at_us) < KNOWN_S);
    figures_add(f, "all tasks known", "s", seconds_since(b, at_us));
    if (b->tasks_elsewhere || b->tasks_known != held)
        bench_die("of %u tasks central knows %u, and %u it does not know to be anywhere", held,
                  b->tasks_known, b->tasks_elsewhere);
    b->jobs_accepted = 0;
    submit(b, jobs + 1, one);
    if (!wait_counter(b, &b->jobs_accepted, 1))
        bench_die("no new job is accepted");
    figures_add(f, "next job accepted", "s", seconds_since(b, at_us));
    figures_add(f, "central, most memory", "MB", program_memory(b->central, "VmHWM") / 1e6);
    job_desc_drop(one);
}

/* Rows a second when each is a commit of its own, as the journal's are synced. */
static double bare_commits_per_s(const struct bench *b)
{
    char path[100];
    sqlite3 *db;
    sqlite3_stmt *st;
    int64_t at_us = loop_now(b->loop);
    uint32_t n = 0;

    snprintf(path, sizeof path, "%s/bare.db", b->dir);
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t(a, b);", NULL,
                     NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "INSERT INTO t VALUES(1, zeroblob(100))", -1, &st, NULL) != SQLITE_OK)
        bench_die("SQLite does not work here");
    for (; loop_now(b->loop) < at_us + US_PER_S; n++) {
        if (sqlite3_step(st) != SQLITE_DONE)
            bench_die("SQLite cannot write");
        sqlite3_reset(st);
    }
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n / seconds_since(b, at_us);
}

static void one_round(const char *hawk, uint32_t workers, struct figures *f)
{
    static const struct link_fns dist_fns = {.up = dist_up, .msg = dist_msg, .lost = dist_lost};
    const struct link_config lc = {.role = ROLE_DIST, .name = "load"};
    struct bench b = {.n_workers = workers};
    struct hosted_config hc = {.central = b.addr, .workers = workers, .slots = 1};
    uint32_t jobs;
    int64_t at_us;

    make_dir(b.dir, sizeof b.dir, "hawk-bench-recovery");
    b.loop = hc.loop = loop_new(LOOP_NET);
    free_address(b.addr, sizeof b.addr); /* the same for both lives of central */
    figures_add(f, "bare commits", "/s", bare_commits_per_s(&b));
    start_central(&b, hawk);
    b.dist_links = links_new(b.loop, &lc, &dist_fns, &b);
    b.dist = link_dial(b.dist_links, b.addr, "central");
    wait_dist(&b); /* first of all: its node id is 1 */
    at_us = loop_now(b.loop);
    b.workers = hosted_new(&hc);
    figures_add(f, "all workers joined", "s", seconds_since(&b, at_us));
    submit_all(&b, f, &jobs);
    recover(&b, hawk, f, jobs);
    end_program(b.central, SIGKILL);
    hosted_free(b.workers);
    links_free(b.dist_links, 0);
    loop_free(b.loop);
    remove_dir(b.dir);
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10000;
    uint32_t rounds = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5;
    struct figures *f = figures_new("recovery");
    char hawk[PATH_MAX];

    bench_name("bench_recovery");
    if (workers < 10 || rounds < 1 || rounds > 100)
        bench_die("usage: bench_recovery [FILE.json [WORKERS [ROUNDS]]]");
    log_init("bench_recovery", LOG_ERROR);
    hawk_path(hawk);
    printf("%u workers, %u unfinished long tasks; central is killed and started again\n", workers,
           workers * TASKS_PER_WORKER);
    for (uint32_t i = 0; i < rounds; i++)
        one_round(hawk, workers, f);
    figures_end(f, argc > 1 ? argv[1] : NULL);
    return 0;
}
