/* What central's journal costs and how fast a killed central is back: a real `hawk central` process with its SQLite
 * journal, 10,000 workers (the workers' own policy objects, each with its own connection, all in this process) and
 * 100,000 unfinished long tasks, of which 20,000 are jobs of their own. Central is then killed with -9 and started again.
 *
 * Beside it, as the bound: what bare SQLite commits per second on the same disk, one row a commit.
 * Usage: bench_recovery [FILE.json [WORKERS [ROUNDS]]] */
#include "base/log.h"
#include "base/mem.h"
#include "base/spread.h"
#include "base/units.h"
#include "net/link.h"
#include "net/loop.h"
#include "worker/worker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS_PER_WORKER 10u
#define ARRAY_TASKS 100u      /* tasks of one of the big jobs */
#define SINGLE_SHARE 5u       /* every fifth task is a job of its own */
#define SINGLES_IN_FLIGHT 64u /* of those, sent and not accepted */
#define JOINS_IN_FLIGHT 500u  /* for the first time; after the restart they all come at once */
#define STEP_S 300            /* no phase takes longer */
#define KNOWN_S 40            /* within this, long before a lease is over, central knows every task again */
#define TICK_US (50 * US_PER_MS)

struct bench;

struct hosted {
    struct bench *bench;
    struct worker role;
    struct link *link;
};

struct bench {
    struct loop *loop;
    struct links *worker_links, *dist_links;
    struct link *dist;
    struct hosted *workers;
    uint32_t n_workers;
    struct loop_timer tick;
    char dir[64], addr[64];
    pid_t central;
    /* What was heard. */
    uint32_t joined, jobs_accepted, jobs_watched, tasks_elsewhere, tasks_known;
    bool dist_joined, first_up;
    int64_t first_up_us;
    uint64_t incarnation;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_recovery: %s\n", what);
    exit(1);
}

/* ---- The workers: a shell that carries messages to central, and whose tasks never end ---- */

static void step(struct hosted *h, const struct msg *m);

static void carry(struct hosted *h, struct msg *m)
{
    if (msg_is_wire(m)) {
        if (m->peer == NODE_CENTRAL.v && link_send(h->link, m))
            log_debug("not sent: %s", msg_name(m->type));
    } else if (m->type == MSG_EXEC_START) {
        step(h,
             &(struct msg){.type = MSG_EXEC_STARTED, .exec_started = {.run = m->exec_start.run, .pid = 1}});
    } else if (m->type == MSG_EXEC_KILL) {
        die("a task was killed: central was away for a lease");
    }
}

static void step(struct hosted *h, const struct msg *m)
{
    struct event e = {.now_us = loop_now(h->bench->loop), .m = *m};
    struct out out = {0};

    worker_step(&h->role, &e, &out);
    for (uint32_t i = 0; i < out.n; i++)
        carry(h, &out.v[i]);
    out_clear(&out);
    out_free(&out);
}

static void worker_up(void *arg, struct link *k)
{
    struct hosted *h = link_user(k);
    struct bench *b = arg;

    if (!b->first_up)
        b->first_up_us = loop_now(b->loop);
    b->first_up = true;
    step(h, &(struct msg){.type = MSG_PEER_UP, .peer = NODE_CENTRAL.v, .peer_up.role = ROLE_CENTRAL});
}

static void worker_msg(void *arg, struct link *k, const struct msg *m)
{
    struct bench *b = arg;
    struct msg from = *m;

    from.peer = NODE_CENTRAL.v;
    b->joined += m->type == MSG_JOINED;
    step(link_user(k), &from);
}

static void worker_lost(void *arg, struct link *k, int err, const char *text)
{
    (void)arg, (void)err, (void)text;
    step(link_user(k), &(struct msg){.type = MSG_PEER_LOST, .peer = NODE_CENTRAL.v});
}

static void on_tick(void *arg)
{
    struct bench *b = arg;
    int64_t now_us = loop_now(b->loop);

    for (uint32_t i = 0; i < b->n_workers; i++)
        if (b->workers[i].link && worker_next_timeout(&b->workers[i].role) <= now_us)
            step(&b->workers[i], &(struct msg){.type = MSG_TIMER});
    loop_timer_set(b->loop, &b->tick, now_us + TICK_US);
}

static void make_workers(struct bench *b)
{
    b->workers = xcalloc(b->n_workers, sizeof *b->workers);
    on_tick(b);
    for (uint32_t i = 0; i < b->n_workers; i++) {
        struct worker_config c;
        char name[32];

        snprintf(name, sizeof name, "w%u", i);
        worker_config_init(&c);
        c.name = blob_str(name);
        c.addr = blob_str("unix:/nowhere");
        c.incarnation = i + 1;
        b->workers[i].bench = b;
        worker_init(&b->workers[i].role, &c, i);
        blob_drop(c.name);
        blob_drop(c.addr);
        step(&b->workers[i], &(struct msg){.type = MSG_START});
        b->workers[i].link = link_dial(b->worker_links, b->addr, "central");
        link_set_user(b->workers[i].link, &b->workers[i]);
        while (b->joined + JOINS_IN_FLIGHT < i)
            loop_once(b->loop, loop_now(b->loop) + TICK_US);
    }
}

/* ---- The dist: submits, and asks what became of it ---- */

static void dist_up(void *arg, struct link *k)
{
    struct bench *b = arg;
    struct msg m = {.type = MSG_JOIN};

    m.join = (struct msg_join){.name = blob_str("load"),
                               .addr = blob_str("unix:/nowhere"),
                               .incarnation = b->incarnation,
                               .version = PROTOCOL_VERSION,
                               .role = ROLE_DIST};
    if (link_send(k, &m))
        die("cannot join");
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
        die("a job was refused");
    else if (m->type == MSG_LONG_TASK && m->long_task.state == TASK_WAITING)
        b->tasks_elsewhere++;
    else if (m->type == MSG_LONG_TASK)
        b->tasks_known++;
}

static void dist_lost(void *arg, struct link *k, int err, const char *text)
{
    (void)k, (void)err, (void)text;
    ((struct bench *)arg)->dist_joined = false;
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
        die("cannot submit");
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

static uint32_t tasks_held(const struct bench *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_workers; i++)
        n += b->workers[i].role.n_central_tasks;
    return n;
}

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

static pid_t start_program(const char *program, ...)
{
    const char *argv[20] = {program};
    int n = 1;
    pid_t pid;
    va_list ap;

    va_start(ap, program);
    while ((argv[n] = va_arg(ap, const char *)) && n < 19)
        n++;
    va_end(ap);
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);

        dup2(null, STDOUT_FILENO);
        execvp(program, (char **)argv);
        _exit(127);
    }
    return pid > 0 ? pid : (die("no process can be started"), 0);
}

static void start_central(struct bench *b, const char *hawk)
{
    char state[100];

    snprintf(state, sizeof state, "%s/central", b->dir);
    b->central = start_program(hawk, "central", "--listen", b->addr, "--state-dir", state, "--policy",
                               "hawk-no-partition", "--policy-off", "stealing", "--log-level", "error", NULL);
}

/* VmHWM of central in MB. */
static double central_peak_mb(const struct bench *b)
{
    char path[64], line[256];
    double kb = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)b->central);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtod(line + 6, NULL);
    if (f)
        fclose(f);
    return kb / 1024;
}

static void submit_all(struct bench *b, json_t *r, uint32_t *jobs)
{
    uint32_t tasks = b->n_workers * TASKS_PER_WORKER, singles = tasks / SINGLE_SHARE;
    uint32_t arrays = (tasks - singles) / ARRAY_TASKS, sent = 0;
    struct job_desc *array = job_of(ARRAY_TASKS), *single = job_of(1);
    int64_t at_us = loop_now(b->loop);

    for (uint64_t i = 1; i <= arrays; i++)
        submit(b, i, array);
    if (!wait_counter(b, &b->jobs_accepted, arrays))
        die("the arrays were not accepted");
    json_object_set_new(r, "arrays_accepted_tasks_per_s",
                        json_real((tasks - singles) / seconds_since(b, at_us)));
    at_us = loop_now(b->loop);
    while (b->jobs_accepted < arrays + singles) {
        while (sent < singles && arrays + sent < b->jobs_accepted + SINGLES_IN_FLIGHT)
            submit(b, arrays + ++sent, single);
        if (!wait_counter(b, &b->jobs_accepted, b->jobs_accepted + 1))
            die("the jobs of one task were not accepted");
    }
    json_object_set_new(r, "single_jobs_accepted_per_s", json_real(singles / seconds_since(b, at_us)));
    *jobs = arrays + singles;
    job_desc_drop(array);
    job_desc_drop(single);
    while (tasks_held(b) < (arrays * ARRAY_TASKS) + singles)
        loop_once(b->loop, loop_now(b->loop) + TICK_US);
}

static void watch_all(struct bench *b, uint32_t jobs)
{
    b->jobs_watched = b->tasks_known = b->tasks_elsewhere = 0;
    for (uint64_t i = 1; i <= jobs; i++) {
        struct msg m = {.type = MSG_LONG_WATCH,
                        .long_watch = {.job = job_id_make((node_id_t){1}, i), .epoch = 1}};

        if (link_send(b->dist, &m))
            die("cannot watch");
    }
    if (!wait_counter(b, &b->jobs_watched, jobs))
        die("central does not know every job");
}

static void recover(struct bench *b, const char *hawk, json_t *r, uint32_t jobs)
{
    uint32_t held = tasks_held(b);
    struct job_desc *one = job_of(1);
    int64_t at_us;

    kill(b->central, SIGKILL);
    waitpid(b->central, NULL, 0);
    b->first_up = false;
    b->joined = 0;
    at_us = loop_now(b->loop);
    start_central(b, hawk);
    if (!wait_counter(b, &b->joined, b->n_workers))
        die("not all workers came back");
    json_object_set_new(r, "first_link_s", json_real((double)(b->first_up_us - at_us) / US_PER_S));
    json_object_set_new(r, "all_joined_s", json_real(seconds_since(b, at_us)));
    while (!b->dist_joined)
        loop_once(b->loop, loop_now(b->loop) + TICK_US);
    do
        watch_all(b, jobs);
    while ((b->tasks_elsewhere || b->tasks_known != held) && seconds_since(b, at_us) < KNOWN_S);
    json_object_set_new(r, "all_tasks_known_s", json_real(seconds_since(b, at_us)));
    if (b->tasks_elsewhere || b->tasks_known != held) {
        fprintf(stderr,
                "bench_recovery: of %u tasks central knows %u, and %u it does not know to be anywhere\n",
                held, b->tasks_known, b->tasks_elsewhere);
        exit(1);
    }
    b->jobs_accepted = 0;
    submit(b, jobs + 1, one);
    if (!wait_counter(b, &b->jobs_accepted, 1))
        die("no new job is accepted");
    json_object_set_new(r, "next_job_accepted_s", json_real(seconds_since(b, at_us)));
    json_object_set_new(r, "peak_mb", json_real(central_peak_mb(b)));
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
        die("SQLite does not work here");
    for (; loop_now(b->loop) < at_us + US_PER_S; n++) {
        if (sqlite3_step(st) != SQLITE_DONE)
            die("SQLite cannot write");
        sqlite3_reset(st);
    }
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n / seconds_since(b, at_us);
}

static void free_address(char *addr, size_t size)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof in) ||
        getsockname(fd, (struct sockaddr *)&in, &len))
        die("no free port");
    close(fd);
    snprintf(addr, size, "127.0.0.1:%u", ntohs(in.sin_port));
}

static json_t *round_of(const char *hawk, uint32_t workers)
{
    static const struct link_fns worker_fns = {.up = worker_up, .msg = worker_msg, .lost = worker_lost};
    static const struct link_fns dist_fns = {.up = dist_up, .msg = dist_msg, .lost = dist_lost};
    struct bench b = {.n_workers = workers, .incarnation = 1};
    json_t *r = json_object();
    uint32_t jobs;
    int64_t at_us;

    snprintf(b.dir, sizeof b.dir, "/tmp/hawk-bench-recovery.XXXXXX");
    if (!mkdtemp(b.dir))
        die("cannot make a directory in /tmp");
    b.loop = loop_new(LOOP_NET);
    free_address(b.addr, sizeof b.addr);
    json_object_set_new(r, "bare_commits_per_s", json_real(bare_commits_per_s(&b)));
    start_central(&b, hawk);
    struct link_config lc = {.role = ROLE_DIST, .name = "load"};
    b.dist_links = links_new(b.loop, &lc, &dist_fns, &b);
    b.dist = link_dial(b.dist_links, b.addr, "central");
    while (!b.dist_joined) /* first of all: its node id is 1 */
        loop_once(b.loop, loop_now(b.loop) + TICK_US);
    lc = (struct link_config){.role = ROLE_WORKER, .name = "hosted"};
    b.worker_links = links_new(b.loop, &lc, &worker_fns, &b);
    loop_timer_init(&b.tick, on_tick, &b);
    at_us = loop_now(b.loop);
    make_workers(&b);
    if (!wait_counter(&b, &b.joined, workers))
        die("not all workers joined");
    json_object_set_new(r, "first_join_s", json_real(seconds_since(&b, at_us)));
    submit_all(&b, r, &jobs);
    recover(&b, hawk, r, jobs);
    kill(b.central, SIGKILL);
    waitpid(b.central, NULL, 0);
    loop_timer_clear(b.loop, &b.tick);
    links_free(b.worker_links, 0);
    links_free(b.dist_links, 0);
    for (uint32_t i = 0; i < workers; i++)
        worker_free(&b.workers[i].role);
    free(b.workers);
    loop_free(b.loop);
    waitpid(start_program("rm", "-r", b.dir, NULL), NULL, 0);
    return r;
}

/* ---- The report ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(const json_t *rounds)
{
    const char *key;
    json_t *first = json_array_get(rounds, 0), *v;

    json_object_foreach(first, key, v)
    {
        size_t n = json_array_size(rounds);
        double values[100];

        for (size_t i = 0; i < n; i++)
            values[i] = json_real_value(json_object_get(json_array_get(rounds, i), key));
        qsort(values, n, sizeof *values, by_value);
        printf("%-30s median %10.2f   from %10.2f to %10.2f\n", key, values[n / 2], values[0], values[n - 1]);
    }
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10000;
    uint32_t rounds = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5;
    char hawk[PATH_MAX] = "", *slash;
    json_t *all = json_array();

    if (workers < 10 || rounds < 1 || rounds > 100)
        die("usage: bench_recovery [FILE.json [WORKERS [ROUNDS]]]");
    log_init("bench_recovery", LOG_ERROR);
    if (readlink("/proc/self/exe", hawk, sizeof hawk - 16) < 0 || !(slash = strrchr(hawk, '/')))
        die("cannot tell where this program is");
    memcpy(slash, "/../hawk", sizeof "/../hawk");
    printf("%u workers, %u unfinished long tasks; central is killed and started again\n", workers,
           workers * TASKS_PER_WORKER);
    for (uint32_t i = 0; i < rounds; i++)
        json_array_append_new(all, round_of(hawk, workers));
    report(all);
    if (argc > 1 && json_dump_file(all, argv[1], JSON_INDENT(2)) != 0)
        die("the figures cannot be written");
    json_decref(all);
    return 0;
}
